"""What every task of a pipeline is in Airflow: a function, and links from the task to the pages that show what it did."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from rebalance.airflow import PAGE
from rebalance.airflow.tasks import utc
from rebalance.errors import OrderError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval


class RebalanceOperator(PythonOperator):
    """A step, or an act on a pipeline's past. Its name is what the notes (`rebalance.airflow.marks`) know our tasks by."""

    def __init__(self, *, pipeline: Pipeline, links: Collection[BaseOperatorLink] = (), **options: Any) -> None:
        super().__init__(**options)
        self.pipeline_file = str(pipeline.file)
        self.pipeline_dag = pipeline.dag_id
        self.operator_extra_links = tuple(links)


class IntervalLink(BaseOperatorLink):
    """From a task to its interval on the page of the pipeline."""

    name = "Interval"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called in the task's process when the task has ended."""
        interval = _interval(operator, ti_key)
        return page_address(f"#/dag/{operator.pipeline_dag}" + (f"/interval/{interval.id}" if interval else ""))


class PipelineLink(BaseOperatorLink):
    """From an act on a pipeline's past to the pipeline's page."""

    name = "Pipeline"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called in the task's process when the task has ended."""
        return page_address(f"#/dag/{operator.pipeline_dag}")


class DocsLink(BaseOperatorLink):
    """From `check_quality` to what Great Expectations found in its interval."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The newest page of the interval, or the list of all pages where it has none."""
        from rebalance.quality.docs import docs_index

        index, interval = docs_index(load_pipeline(operator.pipeline_file)), _interval(operator, ti_key)
        # Named after the time at which they were written.
        pages = sorted(index.parent.glob(f"validations/key_stats/{interval.id}/*/*.html")) if interval else []
        newest = (pages or [index])[-1].relative_to(index.parent)
        return page_address(f"docs/{operator.pipeline_dag}/{newest.as_posix()}")


def address(place: str) -> str:
    """A place in Airflow's pages, from the root of the server, so that it holds under whichever name Airflow is reached."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='/')).path.rstrip('/')}/{place}"


def page_address(place: str) -> str:
    """A place on the page of the pipelines."""
    return address(f"{PAGE.lstrip('/')}/{place}")


def _interval(operator: Any, ti: Any) -> Interval | None:
    """The interval of the task's run; none where a run has no data interval, or another one than the pipeline's."""
    start = ti.get_template_context().get("data_interval_start")
    try:
        return load_pipeline(operator.pipeline_file).interval_at(utc(start)) if start else None
    except OrderError:
        return None
