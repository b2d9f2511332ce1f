"""What a pipeline shows and asks in Airflow. A file in Airflow's DAG folder makes DAGs of all pipelines of a folder:

from rebalance.airflow import pipelines

globals().update(pipelines("/path/to/pipelines"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance.errors import extras_named

if TYPE_CHECKING:
    from airflow.sdk import DAG, Asset

#: Keys under which a task leaves what became of it where it returns nothing, and the last one what the whole run came to.
SAID, SUMMARY = "said", "summary"
#: What all our assets are grouped under.
GROUP = "rebalance"
#: Where Airflow's API server has the page of the pipelines.
PAGE = "/rebalance"


def pipelines(folder: str | Path, notify: Sequence[Callable[[Any], object]] = ()) -> dict[str, DAG]:
    """Every pipeline file of a folder as DAGs, by their ids; a file that cannot be used becomes a DAG that says why.

    `notify` are Airflow's notifiers, or functions of its context, that get every alert: it is in the context as `alert`, with `kind`,
    `pipeline`, `interval`, `step` and `message`.
    """
    # Imported here: Airflow's plugin manager reads this package in every process.
    with extras_named():
        from rebalance.airflow.dags import make_dags

    return make_dags(Path(folder), notify)


def asset(pipeline_file: str | Path, table: str = "results") -> Asset:
    """A table of a pipeline as Airflow's asset: a DAG with `schedule=[asset("demo.toml")]` runs when there are new results."""
    with extras_named():
        from rebalance.airflow.assets import asset_of

    return asset_of(pipeline_file, table)
