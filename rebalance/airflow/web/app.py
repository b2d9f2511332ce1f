"""The routes of the page Rebalance, each behind Airflow's own authentication and permissions.

A route of a plugin has no protection by itself. Here every route but the static files, which are the same for everybody, asks for
Airflow's user, and every route of a pipeline for the right to read its DAG.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict

from rebalance.airflow.web.access import interval_of, known_among, load, pipeline_of, runs_of
from rebalance.airflow.web.data_docs import at_home, missing
from rebalance.errors import (
    ConfigError,
    EnvironmentMissingError,
    LockedError,
    OrderError,
    RebalanceError,
    StoreError,
)
from rebalance.pipeline.file import Pipeline
from rebalance.steps.trouble import trouble_in_words

STATIC = Path(__file__).with_name("static")
#: Nothing from elsewhere, nothing inline, and framed by Airflow alone.
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
#: Great Expectations' pages show values of the events: they may style themselves, and do nothing else.
DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'self'; sandbox allow-same-origin"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # Files are asked for again after an update; what is unchanged is not sent again.
    "Cache-Control": "no-cache",
}
#: What the answer to a request is called that meets this trouble; any other is 500.
STATUS: tuple[tuple[type[RebalanceError], int], ...] = (
    (ConfigError, 422),
    (OrderError, 404),
    (LockedError, 503),
    (StoreError, 503),
    (EnvironmentMissingError, 503),
)

READS = [Depends(requires_access_dag("GET"))]
READS_RUNS = [
    *READS,
    Depends(requires_access_dag("GET", DagAccessEntity.RUN)),
    Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE)),
]
#: Trying a plan writes nothing, but it costs the API server a planner's time: for those who may start runs.
TRIES = [*READS, Depends(requires_access_dag("POST", DagAccessEntity.RUN))]

#: One plan is tried at a time: planners take whole cores.
_trying = Lock()


class Trial(BaseModel):
    """The knobs to try; what is left out is as the pipeline file says."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    planner: str | None = None
    theta_max: float | None = None
    max_routes: int | None = None
    channels: int | None = None


def make_app() -> FastAPI:
    """The app that Airflow's API server mounts."""
    app = FastAPI(title="Rebalance", docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(_with_headers)
    app.exception_handler(RebalanceError)(_in_words)
    app.get("/api/pipelines")(get_pipelines)
    app.get("/api/dags/{dag_id}", dependencies=READS)(get_pipeline)
    app.get("/api/dags/{dag_id}/intervals/{interval_id}", dependencies=READS)(get_interval)
    app.get("/api/dags/{dag_id}/intervals/{interval_id}/runs", dependencies=READS_RUNS)(get_runs)
    app.get("/api/dags/{dag_id}/runs/{run_id}", dependencies=READS_RUNS)(get_run)
    app.get("/api/dags/{dag_id}/key", dependencies=READS)(get_key)
    app.get("/api/dags/{dag_id}/trial", dependencies=READS)(get_knobs)
    app.post("/api/dags/{dag_id}/trial", dependencies=TRIES)(post_trial)
    app.get("/docs/{dag_id}/{path:path}", dependencies=READS)(get_docs)
    app.mount("/", StaticFiles(directory=STATIC, html=True), name="static")
    return app


def get_pipelines(user: GetUserDep) -> dict[str, Any]:
    """All pipelines whose DAGs the user may read; one that cannot be read says why and hides no other."""
    from rebalance.documents.overview import overview

    loaded: list[Pipeline] = []
    broken: list[dict[str, str]] = []
    for known in known_among(get_auth_manager().get_authorized_dag_ids(user=user, method="GET")):
        try:
            loaded.append(load(known))
        except RebalanceError as error:
            broken.append({"dag_id": known.dag_id, "why": str(error)})
    return {**overview(loaded), "broken": broken}


def get_pipeline(dag_id: str, last: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> dict[str, Any]:
    """A pipeline over time."""
    from rebalance.documents.over_time import pipeline_over_time

    with _opened(dag_id) as pipeline:
        return pipeline_over_time(pipeline, last=last)


def get_interval(dag_id: str, interval_id: str) -> dict[str, Any]:
    """One interval."""
    from rebalance.documents.interval import interval_document

    with _opened(dag_id) as pipeline:
        return interval_document(pipeline, interval_id)


def get_runs(dag_id: str, interval_id: str) -> dict[str, Any]:
    """Airflow's runs of an interval."""
    with _opened(dag_id) as pipeline:
        return {"runs": runs_of(pipeline, interval_id)}


def get_run(dag_id: str, run_id: str) -> dict[str, Any]:
    """Which interval a run is for."""
    with _opened(dag_id) as pipeline:
        return interval_of(pipeline, run_id)


def get_key(dag_id: str, key: str, last: Annotated[int, Query(ge=1, le=1000)] = 24) -> dict[str, Any]:
    """One key; it may be any text, so it is no part of the path."""
    from rebalance.documents.key import key_document

    with _opened(dag_id) as pipeline:
        return key_document(pipeline, key, last=last)


def get_knobs(dag_id: str) -> dict[str, Any]:
    """What can be tried, and what the pipeline file says."""
    from rebalance.documents.trial import known_planners

    with _opened(dag_id) as pipeline:
        planning = pipeline.planning
        knobs = {"planner": planning.planner, "theta_max": planning.theta_max, "max_routes": planning.max_routes}
        return {"planners": known_planners(), "knobs": {**knobs, "channels": pipeline.channels.count}}


def post_trial(dag_id: str, trial: Trial) -> dict[str, Any]:
    """The plan that these knobs would bring on the stored statistics; nothing is written."""
    from rebalance.documents.trial import try_plan

    if not _trying.acquire(blocking=False):
        raise LockedError("another plan is being tried on this API server, and they go one at a time. Try again soon.")
    try:
        with _opened(dag_id) as pipeline:
            if pipeline.operator.file is not None:
                raise ConfigError(
                    "operator.file is code of yours that says whether its states merge, and Airflow's API server runs none. "
                    f"Try plans of {pipeline.name} at the command line: rebalance plan {pipeline.name} --dry-run"
                )
            return try_plan(pipeline, **trial.model_dump())
    finally:
        _trying.release()


def get_docs(dag_id: str, path: str) -> Response:
    """A page of the pipeline's Data Docs: HTML files of its own folder, and nothing else."""
    from rebalance.quality.docs import docs_index

    index = docs_index(pipeline_of(dag_id)).resolve()
    # Links out of the folder are followed before it is asked where they lead. No file has a name with a zero.
    page = (index.parent / path.replace("\0", "")).resolve() if path else index
    if not page.is_relative_to(index.parent) or page.suffix != ".html" or not page.is_file():
        return HTMLResponse(missing(dag_id), 404, headers={"Content-Security-Policy": DOCS_POLICY})
    return HTMLResponse(at_home(page.read_bytes()), headers={"Content-Security-Policy": DOCS_POLICY})


@contextmanager
def _opened(dag_id: str) -> Iterator[Pipeline]:
    """The DAG's pipeline; trouble with its tables is told in words."""
    pipeline = pipeline_of(dag_id)
    with trouble_in_words(pipeline.tables):
        yield pipeline


async def _with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await answer(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _in_words(_: Request, error: Exception) -> JSONResponse:
    """What went wrong, as the page shows it."""
    exactly_ours = 404 if type(error) is RebalanceError else 500
    status = next((status for kind, status in STATUS if isinstance(error, kind)), exactly_ours)
    return JSONResponse({"error": type(error).__name__, "message": str(error)}, status_code=status)
