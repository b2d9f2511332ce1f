"""Places of tables and events: absolute local paths, or URIs of object stores, and with which credentials those are reached.

Spark is told by its settings, `spark.hadoop.fs.s3a.*` and the like. Everybody else, delta-rs and the lease, is told the same from here:
what the pipeline file says, and what it does not say by the environment. Nothing of it is ever logged or stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

#: Object stores on which tables may lie: each of them has a conditional put.
STORES = ("s3a", "abfss", "gs")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)")
_LOCAL = re.compile(r"file:(?://)?(/.*)")

#: What delta-rs is told of S3, by the end of Spark's setting and by the name that the environment has for it.
_S3 = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
}
#: Those that Spark does not look for in the environment by itself.
_S3_OF_THE_ENVIRONMENT = ("endpoint", "endpoint.region")

#: Options of delta-rs by table root: what the pipeline files said that this process has read.
_options: dict[str, dict[str, str]] = {}


def is_remote(path: str) -> bool:
    """Whether a path is on an object store, not on a disk."""
    return "://" in path


def qualified(value: str, folder: Path) -> str:
    """A path as it is used from here on: absolute if it is local, whatever it is relative to; a URI as it stands.

    >>> qualified("file:///data/t", Path("/p")), qualified("t", Path("/p")), qualified("s3a://b/t/", Path("/p"))
    ('/data/t', '/p/t', 's3a://b/t')
    """
    local = _LOCAL.fullmatch(value)
    if local:
        value = local[1]
    return value.rstrip("/") if is_remote(value) else os.path.normpath(folder / value)


def for_spark(path: str) -> str:
    """The same place for Spark, whose default file system may be another than this machine's disk."""
    return path if is_remote(path) else f"file://{path}"


def complaint(knob: str, path: str, schemes: tuple[str, ...] | None) -> str | None:
    """What is wrong with a URI, if anything; `schemes` are those that will do, None = whatever Spark knows."""
    found = _URI.fullmatch(path)
    if not found:
        return None
    scheme, rest = found.groups()
    if scheme in ("s3", "s3n"):
        return f"{knob} = {path!r}: Spark's name for S3 is s3a. Write s3a://{rest}."
    if schemes is not None and scheme not in schemes:
        known = ", ".join(f"{name}://" for name in schemes)
        return f"{knob} = {path!r}: tables lie on a local disk or on one of {known}. Others have no conditional put, so two writers could lose commits."
    parts = urlsplit(path)
    if parts.query or parts.fragment or parts.password is not None:
        return f"{knob} has more than a place: no '?', no '#', no password. Credentials go into [spark.settings] or the environment."
    odd = re.search(r"[^\w.~/@=+-]", rest, re.ASCII)
    if schemes is not None and odd:
        found_there = "a space" if odd[0] == " " else odd[0]
        return f"{knob} = {path!r} has {found_there} in it, which clients of object stores write in different ways. Use letters, digits and -_.~=+/ only."
    if scheme in STORES and (not parts.netloc or (scheme == "abfss" and not parts.username)):
        form = (
            "abfss://container@account.dfs.core.windows.net/folder"
            if scheme == "abfss"
            else f"{scheme}://bucket/folder"
        )
        return f"{knob} = {path!r} does not say which {'container and account' if scheme == 'abfss' else 'bucket'}. Write {form}."
    return None


def is_secret(setting: str) -> bool:
    """Whether a setting of Spark is one of a store that nobody may see, in a list of processes for one."""
    return bool(re.match(r"spark\.hadoop\..*(key|secret|token|password)", setting, re.IGNORECASE))


def remember(root: str, settings: Mapping[str, str]) -> None:
    """Let everything under a root be reached with what a pipeline's Spark settings say of its store."""
    if is_remote(root):
        _options[root] = store_options(root, settings)


def options_of(path: str) -> dict[str, str]:
    """What delta-rs is to be told to reach a path: as remembered, else by the environment alone; nothing for local ones."""
    if not is_remote(path):
        return {}
    roots = [root for root in _options if path == root or path.startswith(f"{root}/")]
    return dict(_options[max(roots, key=len)]) if roots else store_options(path, {})


def store_options(path: str, settings: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The options of delta-rs that mean what these settings mean to Spark; what they leave open is the environment's."""
    scheme, place = urlsplit(path).scheme, urlsplit(path)
    if scheme == "s3a":
        return _s3_options(place.netloc, settings, environ)
    found: dict[str, str] = {}
    if scheme == "abfss" and (key := settings.get(f"spark.hadoop.fs.azure.account.key.{place.hostname}")):
        found["AZURE_STORAGE_ACCOUNT_KEY"] = key
    if scheme == "gs" and (file := settings.get("spark.hadoop.fs.gs.auth.service.account.json.keyfile")):
        found["GOOGLE_SERVICE_ACCOUNT"] = file
    return found


def spark_settings(path: str, settings: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings that Spark needs beside these to look at the same store as everybody else: what only the environment says."""
    if urlsplit(path).scheme != "s3a":
        return {}
    bucket = urlsplit(path).netloc
    return {
        f"spark.hadoop.fs.s3a.{name}": environ[_S3[name]]
        for name in _S3_OF_THE_ENVIRONMENT
        if environ.get(_S3[name]) and not _s3_setting(bucket, name, settings)
    }


def _s3_options(bucket: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    found = {option: environ[option] for option in _S3.values() if environ.get(option)}
    own = {option: said for name, option in _S3.items() if (said := _s3_setting(bucket, name, settings))}
    if "AWS_ACCESS_KEY_ID" in own:
        # A token of the environment belongs to the environment's key.
        found.pop("AWS_SESSION_TOKEN", None)
    found |= own
    endpoint = found.get("AWS_ENDPOINT_URL", "")
    if endpoint and "://" not in endpoint:
        plain = _s3_setting(bucket, "connection.ssl.enabled", settings) == "false"
        endpoint = found["AWS_ENDPOINT_URL"] = f"{'http' if plain else 'https'}://{endpoint}"
    if endpoint.startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found


def _s3_setting(bucket: str, name: str, settings: Mapping[str, str]) -> str | None:
    """As Hadoop looks it up: a bucket's own setting first."""
    return settings.get(f"spark.hadoop.fs.s3a.bucket.{bucket}.{name}") or settings.get(f"spark.hadoop.fs.s3a.{name}")
