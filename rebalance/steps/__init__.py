"""The five verbs of an interval, in the order in which they run."""
