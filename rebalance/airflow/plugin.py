"""What Airflow loads of this package by itself, wherever the package is installed: the listener that marks runs."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from rebalance.airflow import marks


class RebalancePlugin(AirflowPlugin):
    """Named in the project's entry points."""

    name = "rebalance"
    listeners = [marks]  # noqa: RUF012 - Airflow's own attribute
