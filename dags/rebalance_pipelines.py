"""Airflow DAGs: one `rebalance_<pipeline>` per TOML file in `pipelines/` (or in the folder that REBALANCE_PIPELINES names).

Airflow reads this file every half minute, so it imports neither Spark nor anything else that takes long; the tasks do, when they run.
"""

from __future__ import annotations

import os
from pathlib import Path

from rebalance.airflow import pipelines

globals().update(pipelines(os.environ.get("REBALANCE_PIPELINES") or Path(__file__).parent / "pipelines"))
