"""Delta tables, files and conditional puts below a path, local or on an object store, with the credentials that belong to it."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from pathlib import Path

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from rebalance.errors import StoreError
from rebalance.stores.places import is_remote, options_of

_TO_SET = {
    "s3a": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment (or spark.hadoop.fs.s3a.access.key and .secret.key in [spark.settings]), "
    "AWS_REGION (or fs.s3a.endpoint.region) and, for a store that is not Amazon's, AWS_ENDPOINT_URL (or fs.s3a.endpoint)",
    "abfss": "spark.hadoop.fs.azure.account.key.<account>.dfs.core.windows.net in [spark.settings], or AZURE_STORAGE_ACCOUNT_KEY in the environment",
    "gs": "spark.hadoop.fs.gs.auth.service.account.json.keyfile in [spark.settings], or GOOGLE_SERVICE_ACCOUNT in the environment",
}


def delta_table(path: str, version: int | None = None) -> DeltaTable:
    """The table at a path, at its newest version or an earlier one."""
    return DeltaTable(path, version=version, storage_options=options_of(path))


def is_table(path: str) -> bool:
    """Whether there is a Delta table; a store that cannot be asked is an error, not a no."""
    return DeltaTable.is_deltatable(path, options_of(path))


def filesystem(path: str) -> pa_fs.FileSystem:
    """The folder at a path as Arrow's file system."""
    return pa_fs.PyFileSystem(DeltaStorageHandler(path, options_of(path)))


def make_folder(path: str) -> None:
    """A folder to write to; object stores have none."""
    if not is_remote(path):
        Path(path).mkdir(parents=True, exist_ok=True)


def object_store(path: str, *, hurried: bool = False) -> ObjectStore:
    """What is below a path as a store with conditional puts; one that is hurried answers at once or not at all."""
    if not is_remote(path):
        return LocalStore(path, mkdir=True)
    options = options_of(path)
    # A setting of the connection, not of the store.
    allowed = {"allow_http": options.pop("AWS_ALLOW_HTTP", "") == "true"}
    client = {**allowed, "timeout": "3s" if hurried else "20s", "connect_timeout": "2s" if hurried else "5s"}
    retries = {"max_retries": 0 if hurried else 3, "retry_timeout": timedelta(seconds=3 if hurried else 15)}
    return from_url(path, config=options, client_options=client, retry_config=retries)  # type: ignore[call-overload, no-any-return]


def put_new(path: str, name: str, content: bytes) -> bool:
    """Create a file, whole or not at all; returns whether it is there with this content, which nobody else's file has."""
    store = object_store(path)
    try:
        store.put(name, content, mode="create")
    except AlreadyExistsError:
        # An earlier try of this very request may have arrived, and its answer not.
        return bytes(store.get(name).bytes()) == content
    return True


@cache
def require_reachable(root: str) -> None:
    """Refuse a store that does not answer or does not let us in, before any work begins; a store that did is not asked again."""
    if not is_remote(root):
        return
    try:
        next(iter(object_store(root).list("_locks")), None)
    except (BaseError, OSError) as error:
        raise refusal(root, error) from None


def refusal(root: str, error: Exception) -> StoreError:
    """What a store's error means, without its own words: they may hold parts of the request."""
    said = str(error)
    code = re.search(r"<Code>(\w+)</Code>", said) or re.search(r"status code: (\d+[ \w]*)", said)
    cause = f"it answers {code[1].strip()}" if code else "there is no answer, or there are no credentials"
    return StoreError(f"{root} cannot be used: {cause}. Check the name, and set {_TO_SET[root.partition('://')[0]]}.")
