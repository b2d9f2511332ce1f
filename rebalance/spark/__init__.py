"""What runs on Spark: sessions, the source, routing, placement, the work per key, the moving of state."""
