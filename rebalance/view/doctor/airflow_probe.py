"""Asks Airflow about itself, in a process of its own: `python -m rebalance.view.doctor.airflow_probe` prints one line of JSON.

Importing Airflow takes a second, sets up logging and may hang on a configuration; none of that belongs into the command that asks.
Addresses are given without user and password.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: Seconds to wait for the database, and for the API server.
_DATABASE, _SERVER = 2, 1.5


def main() -> None:
    """Each answer by itself: one that fails says so in its place."""
    sys.stdout.write(json.dumps({name: _tried(ask) for name, ask in _QUESTIONS.items()}) + "\n")


def _tried(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        return {"error": _without_password(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")}


def _connection() -> str:
    from airflow.configuration import conf

    return conf.get_mandatory_value("database", "sql_alchemy_conn")


def _without_password(text: str) -> str:
    try:
        password = urlsplit(_connection()).password
    except Exception:
        password = None
    return text.replace(password, "***") if password else text


def _database() -> dict[str, Any]:
    """Where the records are, which migration they are at, which this Airflow wants, and what of ours is in them."""
    from airflow.utils.db import _REVISION_HEADS_MAP
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.engine import make_url

    url = make_url(_connection())
    kind = url.get_backend_name()
    place = f"{kind} {url.database}" if kind == "sqlite" else f"{kind} {url.host}:{url.port or ''}/{url.database}"
    found: dict[str, Any] = {"place": place, "wanted": list(_REVISION_HEADS_MAP.values())[-1]}
    if kind == "sqlite" and not Path(url.database or "").is_file():
        # Asking SQLite for a file makes it.
        return {**found, "missing": True}
    options = {"timeout": _DATABASE} if kind == "sqlite" else {"connect_timeout": _DATABASE}
    engine = create_engine(url, connect_args=options)
    with engine.connect() as connection:
        there = inspect(connection).has_table("alembic_version")
        found["revision"] = _rows(connection, "SELECT version_num FROM alembic_version") if there else []
        if found["revision"] and found["revision"][0][0] == found["wanted"]:
            found |= _ours(connection)
    return found


def _ours(connection: Any) -> dict[str, Any]:
    """The DAGs of pipelines, files that cannot be imported, and when a scheduler was last at work."""
    dags = "SELECT d.dag_id, d.is_paused, d.is_stale FROM dag d JOIN dag_tag t ON t.dag_id = d.dag_id WHERE t.name = 'rebalance' ORDER BY d.dag_id"
    beat = _rows(connection, "SELECT MAX(latest_heartbeat) FROM job WHERE job_type = 'SchedulerJob'")[0][0]
    return {
        "dags": [[dag, bool(paused), bool(stale)] for dag, paused, stale in _rows(connection, dags)],
        "broken": [row[0] for row in _rows(connection, "SELECT filename FROM import_error ORDER BY filename")],
        "scheduler": _age(beat),
    }


def _rows(connection: Any, query: str) -> list[list[Any]]:
    from sqlalchemy import text

    return [list(row) for row in connection.execute(text(query))]


def _age(moment: Any) -> float | None:
    """Seconds since a moment, which SQLite gives as text."""
    if moment is None:
        return None
    time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return (datetime.now(UTC) - (time if time.tzinfo else time.replace(tzinfo=UTC))).total_seconds()


def _plugin() -> str:
    """Our plugin, loaded as Airflow loads it."""
    (found,) = entry_points(group="airflow.plugins", name="rebalance")
    return str(found.load().name)


def _folder() -> str:
    from airflow.configuration import conf

    return conf.get_mandatory_value("core", "dags_folder")


def _api() -> dict[str, Any] | None:
    """What the API server says of Airflow's parts, if the configuration says where it is."""
    from airflow.configuration import conf

    base = conf.get("api", "base_url", fallback="").rstrip("/")
    if not base.startswith(("http://", "https://")):
        return None
    address = urlsplit(base)._replace(netloc=urlsplit(base).netloc.rpartition("@")[2]).geturl()
    try:
        with urllib.request.urlopen(f"{address}/api/v2/monitor/health", timeout=_SERVER) as answer:
            parts = {part: (said or {}).get("status") for part, said in json.load(answer).items()}
    except (OSError, ValueError) as error:
        return {"address": address, "silent": str(getattr(error, "reason", error))[:200]}
    return {"address": address, "parts": parts}


_QUESTIONS: dict[str, Callable[[], Any]] = {"folder": _folder, "plugin": _plugin, "database": _database, "api": _api}

if __name__ == "__main__":
    # As a library it makes no folders and starts no logging.
    os.environ.setdefault("_AIRFLOW__AS_LIBRARY", "1")
    main()
