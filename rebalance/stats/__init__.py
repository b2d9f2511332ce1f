"""WHAT is known of the keys, in less space: discretized values, compact records, counts."""
