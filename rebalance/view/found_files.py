"""The files of somebody's table, on a disk or an object store: which they are, and how they are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError

from rebalance.errors import ConfigError
from rebalance.stores.access import delta_table, filesystem, is_table, require_reachable
from rebalance.stores.places import STORES, complaint, is_remote

#: How files are called, by format.
SUFFIXES = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz"), "json": (".json", ".jsonl", ".ndjson")}


@dataclass(frozen=True)
class Files:
    """Files in the order of their names, which is often that of time."""

    names: list[str]
    bytes: int
    #: What the names belong to.
    store: Any


def check_place(path: str) -> None:
    """Refuse a place where nobody can look, or that does not answer."""
    if not is_remote(path):
        return
    wrong = complaint("--source", path, None)
    if wrong:
        raise ConfigError(wrong)
    if path.partition("://")[0] not in STORES:
        raise ConfigError(
            f"{path}: tables are looked at on this machine's disks and on {', '.join(f'{name}://' for name in STORES)}. Make a file from a copy "
            "of some of its events, and set source.path in it."
        )
    require_reachable(path)


def format_of(path: str) -> str:
    """The format of a table, by what lies in its folder."""
    there = _there(*_store_of(path))
    if there == pa_fs.FileType.NotFound:
        raise ConfigError(f"there is nothing at {path}. Give the folder of a table, or a file.")
    if there == pa_fs.FileType.Directory and is_table(path):
        return "delta"
    counts = {name: len(files_of(path, name).names) for name in SUFFIXES}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        raise ConfigError(
            f"{path} has neither a _delta_log nor files that end in {', '.join(sum(SUFFIXES.values(), ()))}. Name the format with --format."
        )
    return best


def files_of(path: str, kind: str) -> Files:
    """The table's files, without those that Spark leaves out: what begins with a dot or an underscore."""
    store, base = _store_of(path)
    if kind == "delta":
        return _files_of_delta(path, store, base)
    whole = pa_fs.FileSelector(base, recursive=True, allow_not_found=True)
    found = store.get_file_info([base] if _there(store, base) == pa_fs.FileType.File else whole)
    taken = [
        info
        for info in found
        if info.type == pa_fs.FileType.File and info.path.endswith(SUFFIXES[kind]) and not _hidden(info.path, base)
    ]
    return Files(sorted(info.path for info in taken), sum(info.size for info in taken), store)


def dataset_of(path: str, kind: str, files: Files) -> Any:
    """The files as one table; of a Delta table with its own types, also of columns that only stand in the names of folders."""
    if kind != "delta":
        return ds.dataset(files.names, format=kind, partitioning="hive", filesystem=files.store)
    table = delta_table(path)
    schema = pa.schema(table.schema().to_arrow())
    folders = pa.schema([schema.field(name) for name in table.metadata().partition_columns])
    partitioning = ds.partitioning(folders, flavor="hive")
    return ds.dataset(files.names, schema=schema, format="parquet", partitioning=partitioning, filesystem=files.store)


def _store_of(path: str) -> tuple[Any, str]:
    """A file system and where in it the path is; a store's begins above it, so that a single object can be told from a folder."""
    if not is_remote(path):
        return pa_fs.LocalFileSystem(), path
    folder, _, name = path.rpartition("/")
    return (filesystem(path), "") if folder.endswith("/") else (filesystem(folder), name)


def _there(store: Any, base: str) -> Any:
    """A file, a folder or nothing; the whole of a store is a folder."""
    return store.get_file_info([base])[0].type if base else pa_fs.FileType.Directory


def _files_of_delta(path: str, store: Any, base: str) -> Files:
    try:
        actions = pa.RecordBatchReader.from_stream(delta_table(path).get_add_actions(flatten=True)).read_all()
    except DeltaError as error:
        raise ConfigError(f"{path} cannot be read as a Delta table: {str(error).splitlines()[0]}") from None
    names = [f"{base}/{unquote(name)}" if base else unquote(name) for name in actions["path"].to_pylist()]
    return Files(sorted(names), sum(actions["size_bytes"].to_pylist()), store)


def _hidden(name: str, base: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.removeprefix(base).split("/"))
