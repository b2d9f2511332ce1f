"""Airflow's simple auth manager, but nobody sees all DAGs: the users `name` and `name-…` see the pipeline `rebalance_name…` alone."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class OneDagEach(SimpleAuthManager):
    """What a role may do, a user may do with a pipeline of that name, and with the DAGs that belong to it."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **asked: Any) -> bool:
        own = f"rebalance_{user.username.partition('-')[0]}"
        mine = details is None or details.id is None or details.id.startswith(own)
        return mine and super().is_authorized_dag(user=user, details=details, **asked)
