"""Frugal, the default: within θ_max for little more state than any plan must move."""
