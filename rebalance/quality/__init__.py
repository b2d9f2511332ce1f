"""Great Expectations on an interval's statistics and events: what must hold, what is usual, and what a failure does."""
