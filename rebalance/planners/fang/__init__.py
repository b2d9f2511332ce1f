"""Fang et al.: LLFD, MinTable, MinMig, Mixed and its brute-force variant, on keys or on compact records."""
