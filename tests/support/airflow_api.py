"""Airflow by its own API, as its pages ask it: for tests that only look from outside."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from rebalance.pipeline.intervals import Interval

_PATIENCE = 120.0


@dataclass
class AirflowApi:
    """Somebody who is logged in."""

    address: str
    user: str
    password: str
    _token: str = ""

    def health(self) -> dict[str, Any]:
        """What its parts say of themselves."""
        return dict(self._ask("GET", "/api/v2/monitor/health"))

    def unpause(self, dag_id: str) -> bool:
        """Let it run; False as long as Airflow does not know it."""
        return self._if_there("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False}) is not None

    def pause(self, dag_id: str) -> bool:
        """Let nothing of it begin, while what is at work goes on; False as long as Airflow does not know it."""
        return self._if_there("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True}) is not None

    def state(self, dag_id: str, interval: Interval) -> str:
        """What has become of the scheduler's run of an interval; empty as long as there is none."""
        return str((self._of_run(dag_id, interval) or {}).get("state", ""))

    def tasks(self, dag_id: str, interval: Interval) -> dict[str, dict[str, Any]]:
        """The same of the run's tasks."""
        found = self._of_run(dag_id, interval, "/taskInstances") or {"task_instances": []}
        return {task["task_id"]: task for task in found["task_instances"]}

    def _of_run(self, dag_id: str, interval: Interval, what: str = "") -> Any:
        run = quote(f"scheduled__{interval.end.isoformat()}")
        return self._if_there("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run}{what}")

    def _if_there(self, method: str, path: str, said: Any = None) -> Any:
        try:
            return self._ask(method, path, said)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                raise
            return None

    def _ask(self, method: str, path: str, said: Any = None) -> Any:
        if not self._token:
            self._token = "none"
            who = {"username": self.user, "password": self.password}
            self._token = self._ask("POST", "/auth/token", who)["access_token"]
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if said is None else json.dumps(said).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return json.load(answer)
