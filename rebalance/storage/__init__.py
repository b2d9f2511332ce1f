"""The tables of a pipeline: what is stored, where, and which version belongs together."""
