"""The demo: a generated, skewed and drifting stream of trades through the whole pipeline."""
