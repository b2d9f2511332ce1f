"""Where files lie, local disks and object stores alike, and how they are reached outside of Spark."""
