"""Small pipelines for the doctor to look at, and its findings by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.view.doctor.findings import Finding

EVENTS = pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 1, tzinfo=UTC)]), "v": [1.0]})


def write(folder: Path, more: str = "", *, tables: str = "tables", path: str = "events", source: str = "") -> Path:
    file = folder / "shop.toml"
    file.write_text(
        f'tables = "{tables}"\n[source]\npath = "{path}"\nkey = "k"\ntime = "t"\n{source}\n'
        '[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        f'[operator]\nname = "distinct"\nparameters = {{ value = "v" }}\n[quality]\ndocs = "docs"\n{more}\n'
    )
    return file


def pipeline_of(folder: Path, more: str = "", **places: str) -> Pipeline:
    return load_pipeline(write(folder, more, **places))


def only(findings: Sequence[Finding], name: str) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def said(findings: Sequence[Finding]) -> dict[str, str]:
    return {finding.name: finding.state for finding in findings}
