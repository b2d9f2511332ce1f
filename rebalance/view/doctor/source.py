"""A pipeline's events: whether they are where the file says, and have the columns it names. Nothing of them is read but schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError

from rebalance.pipeline.file import Pipeline
from rebalance.stores.access import filesystem, object_store, refusal
from rebalance.stores.places import STORES, is_remote, options_of, remember
from rebalance.view.doctor.findings import Finding
from rebalance.view.found_files import SUFFIXES

_MEND = "Correct source.path and source.format, or write the events there."


def source(pipeline: Pipeline) -> Sequence[Finding]:
    """The place, then its columns."""
    said = pipeline.source
    if said.table:
        return [
            Finding("source", "skipped", f"{said.table} is a name in Spark's catalog, which only Spark can look up")
        ]
    if is_remote(said.path) and said.path.partition("://")[0] not in STORES:
        return [Finding("source", "skipped", f"{said.path} is on a store that only Spark knows")]
    remember(said.path, pipeline.spark.settings)
    try:
        seen, schema = _delta(said.path) if said.format == "delta" else _files(said.path, said.format)
    except (DeltaError, pa.ArrowException, BaseError, OSError) as error:
        if is_remote(said.path):
            raise refusal(said.path, error) from None
        return [
            Finding(
                "source", "fail", f"{said.path} cannot be read as {said.format}: {str(error).splitlines()[0]}", _MEND
            )
        ]
    if schema is None:
        return [Finding("source", "fail", seen, _MEND)]
    columns = {**dict(zip(schema.names, schema.types, strict=True)), **_declared(said.columns)}
    return [Finding("source", "ok", seen), _columns(pipeline, columns)]


def _delta(path: str) -> tuple[str, pa.Schema | None]:
    if not is_remote(path) and not (Path(path) / "_delta_log").is_dir():
        return f"there is no Delta table at {path}", None
    table = DeltaTable(path, storage_options=options_of(path))
    return f"Delta table at version {table.version()}: {path}", pa.schema(table.schema().to_arrow())


def _files(path: str, kind: str) -> tuple[str, pa.Schema | None]:
    """The first file tells the columns; folders named column=value are columns too."""
    file = next(_remote(path, kind) if is_remote(path) else _local(Path(path), kind), None)
    if file is None:
        return f"there are no {kind} files ({' or '.join(SUFFIXES[kind])}) at {path}", None
    place, name = (filesystem(path), file) if is_remote(path) else (None, str(Path(path) / file) if file else path)
    folders = [part.partition("=")[0] for part in file.split("/")[:-1] if "=" in part]
    schema = pa.schema([(folder, pa.string()) for folder in folders])
    if kind == "parquet":
        schema = pa.unify_schemas(
            [pq.read_schema(name, filesystem=place), *([schema] if folders else [])], promote_options="permissive"
        )
    return f"{kind} files are there: {path}", schema


def _local(path: Path, kind: str) -> Iterator[str]:
    if path.is_file():
        yield ""
    for file in path.rglob("*"):
        parts = file.relative_to(path).parts
        if file.name.endswith(SUFFIXES[kind]) and not any(part.startswith((".", "_")) for part in parts):
            yield "/".join(parts)


def _remote(path: str, kind: str) -> Iterator[str]:
    for page in object_store(path, hurried=True).list():
        for found in page:
            if found["path"].endswith(SUFFIXES[kind]):
                yield found["path"]


def _declared(columns: str | None) -> dict[str, str]:
    """The columns that the pipeline file declares itself: 'ts TIMESTAMP, price DECIMAL(9, 2)'."""
    parts: list[str] = []
    for part in (columns or "").split(","):
        # A comma inside brackets belongs to a type.
        if parts and parts[-1].count("(") + parts[-1].count("<") > parts[-1].count(")") + parts[-1].count(">"):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return {
        name.strip("`"): kind
        for name, _, kind in (part.strip().replace(":", " ").partition(" ") for part in parts)
        if name
    }


def _columns(pipeline: Pipeline, columns: dict[str, object]) -> Finding:
    said = pipeline.source
    missing = [name for name in dict.fromkeys((*said.key, said.time, *said.partitions)) if name not in columns]
    if missing:
        return Finding(
            "source columns",
            "fail",
            f"there is no {' and no '.join(map(repr, missing))}; the columns are: {', '.join(columns)}",
            "Correct source.key, source.time or source.partitions.",
        )
    kind = columns[said.time]
    is_time = (
        kind.strip().upper().startswith(("TIMESTAMP", "DATE"))
        if isinstance(kind, str)
        else pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    )
    if not is_time:
        return Finding(
            "source columns",
            "fail",
            f"{said.time!r} is {kind}, not a timestamp",
            "Cast it in the source, or name another source.time.",
        )
    return Finding(
        "source columns", "ok", f"key {', '.join(said.key)}; time {said.time}; {len(columns)} columns in all"
    )
