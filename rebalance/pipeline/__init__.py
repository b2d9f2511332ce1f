"""A pipeline file: its sections, how it is read and checked, and the intervals it cuts time into."""
