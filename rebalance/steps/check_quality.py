"""check_quality: Great Expectations on the interval's statistics. Nothing is planned on bad ones.

Leaves a row per expectation in `quality_runs` and a page in Data Docs. The statistics are read through delta-rs into pandas: they fit the
driver anyway (the planner needs them there), it takes 0.7 s instead of several, and no Spark has to be started.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rebalance.errors import OrderError, QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import epoch_of, load_function
from rebalance.storage.lock import writer_lock
from rebalance.storage.schemas import SCHEMAS

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation

#: Types of the columns of `key_stats` as pandas sees them; the key's own type is checked against the function.
_TYPES = {
    column.name: np.dtype(column.type.to_pandas_dtype()).name
    for column in SCHEMAS["key_stats"]
    if column.name not in ("interval_id", "key")
}
_EXAMPLES = 3


def check_quality(pipeline: Pipeline, interval: Interval) -> str:
    """Check one interval's statistics; raises QualityError naming every expectation that failed."""
    root = pipeline.tables
    with writer_lock(root):
        if not control.has_rows(root, "channel_stats", interval.id):
            raise OrderError(f"interval {interval.id} has no statistics yet. Run collect_stats first.")
        earlier = control.rows(root, "quality_runs", columns=["success"], interval_id=interval.id)
        if earlier and all(row["success"] for row in earlier):
            return f"the statistics of interval {interval.id} passed already; nothing changed"
        stats = control.read(root, "key_stats", interval_id=interval.id).to_pandas()
        results = _validate(pipeline, interval, stats)
        control.replace(root, "quality_runs", results, interval_id=interval.id)
    failed = [row for row in results if not row["success"]]
    if failed:
        raise QualityError(
            f"{len(failed)} of {len(results)} checks on the statistics of interval {interval.id} failed; nothing is planned on them. "
            + " | ".join(row["detail"] for row in failed)
            + f" | Details: {docs_index(pipeline)}"
        )
    return f"{len(results)} checks on {len(stats):,} keys passed"


def docs_index(pipeline: Pipeline) -> Path:
    """The first page of the pipeline's Data Docs."""
    return _docs_folder(pipeline) / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html"


def _docs_folder(pipeline: Pipeline) -> Path:
    folder = pipeline.quality.docs or f"{pipeline.tables}/_quality"
    if "://" in folder:
        raise QualityError(f"Data Docs need a local folder, and the tables are at {pipeline.tables}. Set quality.docs.")
    return Path(folder)


def _expectations(pipeline: Pipeline, interval: Interval) -> list[Expectation]:
    """The suite: what must hold for statistics to be planned on."""
    from great_expectations import expectations as gxe

    root = pipeline.tables
    epoch = epoch_of(root, interval.id, "process")
    function = load_function(root, epoch.function_version if epoch else 0)
    (batch,) = control.rows(root, "batches", columns=["rows"], interval_id=interval.id)
    key_kind = "int64" if function.key_type == "long" else "str"
    numbers = ("tuples", "cost", "state_bytes", "window_bytes")
    suite: list[Expectation] = [
        gxe.ExpectTableColumnsToMatchSet(column_set=SCHEMAS["key_stats"].names),
        gxe.ExpectColumnValuesToBeOfType(column="key", type_=key_kind),
        *(gxe.ExpectColumnValuesToBeOfType(column=column, type_=kind) for column, kind in _TYPES.items()),
        *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in ("key", *_TYPES)),
        gxe.ExpectColumnValuesToBeUnique(column="key"),
        *(gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0) for column in numbers),
        *(
            gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0, max_value=function.channels - 1)
            for column in ("channel", "hash_channel")
        ),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="window_bytes", column_B="state_bytes", or_equal=True),
        gxe.ExpectColumnSumToBeBetween(column="tuples", min_value=batch["rows"], max_value=batch["rows"]),
    ]
    usual = _usual_volume(pipeline, interval)
    if usual is not None:
        factor = pipeline.quality.volume_factor
        suite.append(
            gxe.ExpectColumnSumToBeBetween(
                column="tuples",
                min_value=usual / factor,
                max_value=usual * factor,
                notes="volume against recent intervals",
            )
        )
    return suite


def _usual_volume(pipeline: Pipeline, interval: Interval) -> float | None:
    """Mean rows of the recent intervals, None while there are none."""
    batches = control.rows(pipeline.tables, "batches", columns=["interval_id", "rows"])
    earlier = sorted((row["interval_id"], row["rows"]) for row in batches if row["interval_id"] < interval.id)
    recent = [rows for _, rows in earlier[::-1][: pipeline.quality.volume_history]]
    return sum(recent) / len(recent) if recent and sum(recent) else None


def _validate(pipeline: Pipeline, interval: Interval, stats: pd.DataFrame) -> list[dict[str, Any]]:
    """Run the suite and update Data Docs; one row per expectation."""
    # Great Expectations reports its use to its makers unless told not to; a data team's checks are its own business.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.checkpoint import UpdateDataDocsAction

    context = gx.get_context(mode="file", project_root_dir=str(_docs_folder(pipeline)))
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}  # type: ignore[assignment]
    asset = context.data_sources.add_or_update_pandas("statistics").add_dataframe_asset("key_stats")
    suite = context.suites.add_or_update(
        gx.ExpectationSuite("key_stats", expectations=_expectations(pipeline, interval))
    )
    data = asset.add_batch_definition_whole_dataframe("interval")
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name="key_stats", data=data, suite=suite)
    )
    checkpoint = context.checkpoints.add_or_update(
        gx.Checkpoint(
            name="key_stats",
            validation_definitions=[definition],
            actions=[UpdateDataDocsAction(name="docs")],
            result_format={"result_format": "SUMMARY", "partial_unexpected_count": _EXAMPLES},
        )
    )
    run = checkpoint.run(batch_parameters={"dataframe": stats}, run_id=gx.RunIdentifier(run_name=interval.id))
    (validation,) = run.run_results.values()
    return [_row(interval, result) for result in validation.results]


def _row(interval: Interval, result: Any) -> dict[str, Any]:
    """One expectation's outcome in words: which, on what, how many bad rows, examples."""
    wanted = {k: v for k, v in result.expectation_config.kwargs.items() if k not in ("batch_id", "column")}
    column = result.expectation_config.kwargs.get("column", "")
    name = result.expectation_config.type
    bad = int(result.result.get("unexpected_count") or 0)
    if result.exception_info.get("raised_exception"):
        found = str(result.exception_info.get("exception_message"))
    elif "observed_value" in result.result:
        found = f"observed {result.result['observed_value']}"
    else:
        examples = result.result.get("partial_unexpected_list", [])[:_EXAMPLES]
        found = f"{bad:,} bad rows" + (f", for example {', '.join(map(str, examples))}" if bad else "")
    return {
        "interval_id": interval.id,
        "expectation": name,
        "column": column,
        "success": bool(result.success),
        "bad_rows": bad,
        "detail": f"{name} on {column or 'the table'} {wanted or ''}: {found}",
    }
