"""Planners that may spread one key over several channels."""
