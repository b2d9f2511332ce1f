"""St-Stream: balance inside each node, then between nodes."""
