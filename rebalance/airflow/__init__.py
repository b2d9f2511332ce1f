"""What a pipeline shows and asks in Airflow. A file in Airflow's DAG folder makes DAGs of all pipelines of a folder:

from rebalance.airflow import pipelines

globals().update(pipelines("/path/to/pipelines"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rebalance.errors import extras_named

if TYPE_CHECKING:
    from airflow.sdk import DAG

#: Key under which a task leaves what went wrong, for the notes on its run.
TROUBLE = "trouble"


def pipelines(folder: str | Path) -> dict[str, DAG]:
    """Every pipeline file of a folder as DAGs, by their ids; a file that cannot be used becomes a DAG that says why."""
    # Imported here: Airflow's plugin manager reads this package in every process.
    with extras_named():
        from rebalance.airflow.dags import make_dags

    return make_dags(Path(folder))
