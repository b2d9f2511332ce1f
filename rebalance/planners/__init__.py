"""How a better function is found: one published algorithm per file, one package per family."""
