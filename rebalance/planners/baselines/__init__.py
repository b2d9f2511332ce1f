"""Planners to compare with: nothing moves, the ring alone, hash mod N."""
