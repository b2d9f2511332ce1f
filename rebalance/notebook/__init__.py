"""Planning on a table at hand, as in a notebook: `rebalance.plan(table, channels=8)`. Needs neither Spark nor a pipeline."""

from rebalance.notebook.planned import TablePlan, plan_table

__all__ = ["TablePlan", "plan_table"]
