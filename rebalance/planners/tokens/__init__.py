"""Rings of tokens: halving and doubling."""
