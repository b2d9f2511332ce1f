"""`rebalance init`: a pipeline file made from a look at somebody's table. Every guess stands in it with what it was made from."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from rebalance.documents.words import several
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.folder import pipelines_folder
from rebalance.pipeline.intervals import parse_length
from rebalance.spark.jars import S3_PACKAGES
from rebalance.stores.places import is_remote, qualified
from rebalance.view.look import Look, Spread, look
from rebalance.view.sql_types import columns_as_sql

#: Names that people give to what happened when, and to what it happened to; the likelier, the earlier.
_TIMES = ("event_time", "event_ts", "ts", "timestamp", "time", "occurred", "created", "date")
_KEYS = (
    "key",
    "user",
    "customer",
    "account",
    "client",
    "device",
    "sensor",
    "symbol",
    "product",
    "item",
    "host",
    "session",
    "id",
)
#: Lengths of intervals to choose from, and how many intervals the times found should fill.
_LENGTHS = ("1 d", "1 h", "15 min", "1 min")
_FILLED = 4


@dataclass(frozen=True)
class Guess:
    """What the file will say, and why."""

    found: Look
    key: str
    time: str
    channels: int
    spreads: list[Spread]
    why_key: str
    why_time: str

    @property
    def spread(self) -> Spread:
        """Of the key."""
        return next(spread for spread in self.spreads if spread.column == self.key)

    @cached_property
    def hashed(self) -> float:
        """Load of the fullest channel over the mean, by the hash alone."""
        return self.found.hashed(self.key, self.channels)

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The times that were seen."""
        return self.found.span(self.time)

    @property
    def length(self) -> str:
        """The longest length of which the times fill a few intervals."""
        first, last = self.span
        return next((text for text in _LENGTHS if (last - first) / parse_length(text) >= _FILLED), _LENGTHS[-1])

    @property
    def first(self) -> datetime:
        """Start of the first interval: of the first event's."""
        first = self.span[0]
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        return first - (first - midnight) % parse_length(self.length)


def init(
    name: str,
    source: str,
    *,
    kind: str | None = None,
    key: str | None = None,
    time: str | None = None,
    channels: int = 8,
) -> tuple[Pipeline, str]:
    """Write a pipeline file for a table; returns the pipeline, and what was found in a few lines."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        raise ConfigError(
            f"{name!r} cannot be a pipeline's name: use small letters, digits and underscores, a letter first."
        )
    if channels < 1:
        raise ConfigError(f"--channels is {channels}; there must be at least one.")
    file = pipelines_folder() / f"{name}.toml"
    if file.exists():
        raise ConfigError(f"{file} is there already, and nothing is overwritten. Choose another name, or remove it.")
    guess = make_guess(look(qualified(source, Path.cwd()), kind), key, time, channels)
    text = pipeline_text(name, guess)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as new:
        new.write(text)
    return load_pipeline(file), summary(guess, file)


def make_guess(found: Look, key: str | None, time: str | None, channels: int) -> Guess:
    """Key and time column: as asked, else by name and by what is in them."""
    for asked, can, option in ((key, found.keys, "key"), (time, found.times, "time")):
        if asked is not None and asked not in can:
            raise ConfigError(
                f"--{option} {asked}: the columns of {found.path} that can be it are {_listed(can) or 'none'}."
            )
    key, time = _reserved(found, "key", key), _reserved(found, "time", time)
    if not found.times:
        raise ConfigError(
            f"no column of {found.path} is a TIMESTAMP or a DATE, so its events cannot be cut into intervals. It has: "
            f"{', '.join(f'{field.name} {field.type}' for field in found.columns)}. Cast one in the source."
        )
    chosen_time = time or min(found.times, key=lambda name: (_rank(name, _TIMES), found.times.index(name)))
    spreads = [found.spread(column) for column in found.keys]
    usable = [spread for spread in spreads if spread.repeats and not spread.nulls and spread.column != chosen_time]
    if key is None and not usable:
        raise ConfigError(
            f"no column of {found.path} looks like a key: text or whole numbers without nulls, each value in several rows. "
            "Name one with --key."
        )
    best = min(usable, key=lambda spread: (_rank(spread.column, _KEYS), -spread.distinct), default=None)
    return Guess(
        found,
        key or (best.column if best else ""),
        chosen_time,
        channels,
        spreads,
        why_key="as asked" if key else "by its name, and because its values come again",
        why_time="as asked" if time else "by its name and type",
    )


def _reserved(found: Look, name: str, asked: str | None) -> str | None:
    """What was asked for; or the column of this very name, which the steps need for themselves: it cannot be anything else."""
    column: str | None = next((column for column in found.columns.names if column.lower() == name), None)
    if column is None:
        return asked
    if column != name or asked not in (None, name) or column not in (found.keys if name == "key" else found.times):
        raise ConfigError(
            f"{found.path} has a column {column!r}; the name is needed for the pipeline's {name}. Rename it in the source."
        )
    return column


def _rank(name: str, hints: tuple[str, ...]) -> int:
    """How early in a list of hints one is found in the name."""
    return next((place for place, hint in enumerate(hints) if hint in name.lower()), len(hints))


def summary(guess: Guess, file: Path) -> str:
    """What was found, and what to do next."""
    return f"""\
{file} is written: {guess.found.format}, key {guess.key}, time {guess.time}, intervals of {guess.length} from {guess.first:%Y-%m-%d %H:%M} UTC.
{skew_in_words(guess)}

Next:
  1. Read the file: every guess is explained there. Set `tables` to where the pipeline may write.
  2. rebalance run {file} --intervals 2      runs in shadow mode: it plans and reports, and moves nothing
  3. rebalance status {file}                 shows what rebalancing would bring
  4. Replace [operator] by your own work (docs/operators.md), and mode = "shadow" by "auto".
In Airflow the DAG is rebalance_{file.stem}, once the folder is one that a DAG file gives to rebalance.airflow.pipelines."""


def skew_in_words(guess: Guess) -> str:
    """Whether there is something to gain."""
    spread = guess.spread
    best = max(1.0, spread.heaviest * guess.channels)
    return (
        f"{spread.distinct:,} keys in {spread.rows:,} rows; the heaviest has {spread.heaviest:.2%} of them. By the hash alone the fullest of "
        f"{guess.channels} channels gets {guess.hashed:.2f} times the mean; whole keys cannot do better than {best:.2f}."
    )


def pipeline_text(name: str, guess: Guess) -> str:
    """The pipeline file."""
    found, (first, last) = guess.found, guess.span
    intervals = max(1, round((last - first) / parse_length(guess.length)))
    rows = found.rows or found.sample.num_rows
    columns = columns_as_sql(found.columns) if found.format in ("csv", "json") else None
    of_files = f"{several(found.sample.num_rows, 'row')} of {several(found.files, 'file')}"
    looked = (
        f"All {of_files} were looked at."
        if found.is_whole
        else f"A sample was looked at: {of_files}; all figures are of it."
    )
    others = "\n".join(f"#   {_about(spread)}" for spread in guess.spreads if spread.column != guess.key)
    return f"""\
# Made by `rebalance init` from a look at the table. {looked}
# What was guessed is explained where it stands; what is not here has its default (docs/reference/pipeline_file.md has every knob).

# The DAG is rebalance_<name>.
name = {_quoted(name)}
# Everything that the pipeline writes, in a folder that belongs to it alone. Relative to this file; set it before the first run.
tables = {_quoted(name + "_tables")}

[source]
path = {_quoted(found.path)}
# {"Found in the folder." if found.format == "delta" else "By the names of the files."}
format = {_quoted(found.format)}
# What the work is done per. Chosen {guess.why_key}:
#   {_about(guess.spread)}
{"# Not chosen:" + chr(10) + others if others else "# No other column can be a key."}
key = {_quoted(guess.key)}
# When an event happened. Chosen {guess.why_time}; columns that can be it: {_listed(found.times)}.
time = {_quoted(guess.time)}
{f"# Types as the look found them; a value that does not fit stops the step that reads it.{chr(10)}columns = {_quoted(columns)}{chr(10)}" if columns else ""}
[interval]
# The longest of {_listed(_LENGTHS)} of which the times found fill {_FILLED}. They go from {first:%Y-%m-%d %H:%M:%S} to
# {last:%Y-%m-%d %H:%M:%S} UTC: about {intervals:,} intervals of {rows // intervals:,} rows.
length = {_quoted(guess.length)}
# The interval of the first event that was seen.{"" if found.is_whole else " In a sample it need not be the very first: earlier events are left out."}
first = {guess.first:%Y-%m-%dT%H:%M:%SZ}

# A start that runs as it is: how many events a key had in this interval and the one before, and when the last one was. Put your own
# work here: SQL like this, a Python function per key, or a built-in operator (docs/operators.md).
[operator]
window = 2

[operator.sql]
rows = "SELECT key, time FROM events"
results = "SELECT key, count(*) AS events, max(time) AS newest FROM rows GROUP BY key, channel"
keeps_rows = true

[channels]
# {skew_in_words(guess)}
# As many as the cores that shall work at the same time, or some more.
count = {guess.channels}

[planning]
# shadow: plans are made and reported, nothing is moved. auto: they are carried out. approve: once a person has said so.
mode = "shadow"
# A plan is made when a channel's load is more than this share off its fair load.
theta_max = 0.08
{_spark(found.path)}"""


def _spark(path: str) -> str:
    """What Spark needs to read from an object store. Credentials are not written down: they stay in the environment."""
    scheme, listed = (
        path.partition("://")[0] if is_remote(path) else "",
        "\n".join(f"    {_quoted(jar)}," for jar in S3_PACKAGES),
    )
    if scheme != "s3a":
        return (
            f"\n# Spark needs the jars of {scheme}:// too (spark.packages): docs/object_stores.md.\n" if scheme else ""
        )
    said = f"\n[spark]\n# The jars that Spark needs for S3, fetched once (docs/object_stores.md).\npackages = [\n{listed}\n]\n"
    if os.environ.get("AWS_ENDPOINT_URL"):
        # Most stores that are not Amazon's know no names of hosts for buckets.
        said += (
            "\n[spark.settings]\n# AWS_ENDPOINT_URL names a store that is not Amazon's: it and the keys stay in the environment.\n"
            '"spark.hadoop.fs.s3a.path.style.access" = "true"\n'
        )
    return said


def _about(spread: Spread) -> str:
    nulls = f", {spread.nulls:,} nulls, which are refused" if spread.nulls else ""
    return f"{json.dumps(spread.column)}: {spread.distinct:,} values in {spread.rows:,} rows, the commonest in {spread.heaviest:.2%}{nulls}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(json.dumps, names))


def _quoted(text: str | None) -> str:
    """As a TOML string: JSON's escapes are TOML's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
