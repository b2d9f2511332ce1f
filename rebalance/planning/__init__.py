"""From statistics to a decision: what is asked of a planner, how its answer is measured, limited and judged."""
