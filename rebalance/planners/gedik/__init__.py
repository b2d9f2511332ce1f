"""Gedik: scan, redist and readj, which weigh balance against migration by a utility."""
