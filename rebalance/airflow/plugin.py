"""What Airflow loads of this package by itself, wherever the package is installed: the listener that marks runs, and the page Rebalance."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from rebalance.airflow import marks

#: Where the API server has the page.
PREFIX = "/rebalance"

log = logging.getLogger("rebalance")


def _view(destination: str, url_route: str, place: str) -> dict[str, Any]:
    # Relative, so that it also holds where Airflow itself is under a prefix.
    href = f"{PREFIX.removeprefix('/')}/#/{place}"
    icons = {
        name: f"{PREFIX.removeprefix('/')}/icon{suffix}.svg"
        for name, suffix in (("icon", ""), ("icon_dark_mode", "_dark"))
    }
    return {"name": "Rebalance", "destination": destination, "url_route": url_route, "href": href, **icons}


class RebalancePlugin(AirflowPlugin):
    """Named in the project's entry points."""

    name = "rebalance"
    listeners = [marks]  # noqa: RUF012 - Airflow's own attribute
    #: The page, from the navigation, from a DAG and from a run; a route may be taken once in all of Airflow.
    external_views = [  # noqa: RUF012
        {**_view("nav", "rebalance", ""), "nav_top_level": True},
        _view("dag", "rebalance-pipeline", "dag/{DAG_ID}"),
        _view("dag_run", "rebalance-interval", "dag/{DAG_ID}/run/{RUN_ID}"),
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's app; made when the API server asks for it, because Airflow loads this module in every process."""
        try:
            from rebalance.airflow.web.app import make_app

            return [{"app": make_app(), "url_prefix": PREFIX, "name": "Rebalance"}]
        except Exception:
            # Airflow asks without a net: without the page it still serves everything else.
            log.exception("the page Rebalance cannot be served")
            return []
