"""`rebalance init`: a look at a table, and the file that is made of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from rebalance.cli import main
from rebalance.errors import ConfigError, StoreError
from rebalance.pipeline.file import load_pipeline
from rebalance.spark.jars import S3_PACKAGES
from rebalance.storage.history import max_over_mean
from rebalance.view import look as looking
from rebalance.view.found_files import format_of
from rebalance.view.init import init
from rebalance.view.look import look
from tests.support.s3 import BUCKET, S3, SECRET

START = datetime(2026, 3, 1, 10, 20, tzinfo=UTC)


def events(rows: int = 600, *, minutes: int = 600, **more: Any) -> pa.Table:
    """Skewed events over some time; `order_id` is of one row each, `amount` no key."""
    random = np.random.default_rng(1)
    times = [START + timedelta(minutes=minutes * i / rows) for i in range(rows)]
    columns = {
        "order_id": np.arange(rows),
        "happened_at": pa.array(times, pa.timestamp("us", "UTC")),
        "shop": [f"s{i % 3}" for i in range(rows)],
        "customer_id": [f"c{rank}" for rank in np.minimum(random.zipf(1.5, rows), 50)],
        "amount": random.random(rows),
    }
    return pa.table({**columns, **more})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user stands: an empty folder for pipelines, and a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBALANCE_PIPELINES", raising=False)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "orders").mkdir()
    pq.write_table(events(), tmp_path / "orders" / "a.parquet")
    return tmp_path


def test_the_file_says_what_was_found_and_loads(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "shop", "--source", "orders", "--channels", "4"]) == 0
    pipeline = load_pipeline(place / "pipelines" / "shop.toml")
    assert (pipeline.source.path, pipeline.source.format) == (str(place / "orders"), "parquet")
    assert (pipeline.source.key, pipeline.source.time) == (("customer_id",), "happened_at")
    assert pipeline.interval.length == timedelta(hours=1)
    assert pipeline.interval.first == START.replace(minute=0)
    assert (pipeline.channels.count, pipeline.planning.mode) == (4, "shadow")
    said = capsys.readouterr().out
    assert "rebalance run pipelines/shop.toml --intervals 2" in said
    text = pipeline.file.read_text()
    assert '#   "shop": 3 values in 600 rows' in text
    assert '#   "order_id": 600 values in 600 rows' in text
    assert "All 600 rows of 1 file were looked at." in text


def test_the_skew_is_that_of_the_hash_that_spark_will_use(place: Path) -> None:
    found = look(str(place / "orders"))
    spread = found.spread("customer_id")
    counts = {row["values"]: row["counts"] for row in events()["customer_id"].value_counts().to_pylist()}
    assert (spread.distinct, spread.heaviest) == (len(counts), max(counts.values()) / 600)
    from rebalance.partition import PartitionFunction, consistent_ring

    function = PartitionFunction(0, 8, consistent_ring(8, replicas=1000))
    loads = [0.0] * 8
    for key, count in counts.items():
        loads[int(function.channel_of([key])[0])] += count
    assert found.hashed("customer_id", 8) == pytest.approx(max_over_mean(loads))


def test_a_file_is_never_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "pipelines" / "shop.toml").write_text("mine")
    assert main(["init", "shop", "--source", "orders"]) == 2
    assert "is there already, and nothing is overwritten" in capsys.readouterr().err
    assert (place / "pipelines" / "shop.toml").read_text() == "mine"


def test_the_format_is_known_by_what_lies_in_the_folder(place: Path) -> None:
    write_deltalake(str(place / "table"), events(), partition_by=["shop"])
    assert format_of(str(place / "table")) == "delta"
    found = look(str(place / "table"))
    assert found.spread("shop").distinct == 3, "a column that only stands in the names of folders"
    (place / "lines").mkdir()
    pyarrow.csv.write_csv(events(), place / "lines" / "a.csv")
    (place / "lines" / "_temporary.csv").write_text("half a")
    assert format_of(str(place / "lines")) == format_of(str(place / "lines" / "a.csv")) == "csv"
    (place / "nothing").mkdir()
    with pytest.raises(ConfigError, match=r"neither a _delta_log nor files that end in \.parquet"):
        format_of(str(place / "nothing"))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_files_get_the_types_of_their_columns(place: Path, kind: str) -> None:
    file = place / f"events.{kind}"
    if kind == "csv":
        pyarrow.csv.write_csv(events(), file)
    else:
        rows = [{**row, "happened_at": row["happened_at"].isoformat()} for row in events().to_pylist()]
        import json

        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pipeline, _ = init("lines", str(file))
    assert pipeline.source.format == kind
    assert (
        pipeline.source.columns
        == "order_id BIGINT, happened_at TIMESTAMP, shop STRING, customer_id STRING, amount DOUBLE"
    )


def test_of_a_large_table_a_sample_over_all_files_is_looked_at_and_the_file_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MOST_ROWS", 60)
    monkeypatch.setattr(looking, "MOST_FILES", 3)
    (place / "large").mkdir()
    for number in range(10):
        pq.write_table(events().slice(60 * number, 60), place / "large" / f"{number}.parquet")
    found = look(str(place / "large"))
    assert (found.sample.num_rows, found.rows, found.is_whole) == (60, 600, False)
    assert sorted({number // 60 for number in found.sample["order_id"].to_pylist()}) == [0, 4, 9]
    text = init("large", str(place / "large"))[0].file.read_text()
    assert "A sample was looked at: 60 rows of 10 files" in text
    assert "earlier events are left out" in text


@pytest.mark.parametrize(
    ("minutes", "length"), [(6 * 24 * 60, "1 d"), (600, "1 h"), (100, "15 min"), (10, "1 min"), (1, "1 min")]
)
def test_an_interval_is_the_longest_of_which_the_times_fill_four(place: Path, minutes: int, length: str) -> None:
    pq.write_table(events(minutes=minutes), place / "orders" / "a.parquet")
    assert f'length = "{length}"' in init("shop", "orders")[0].file.read_text()


@pytest.mark.parametrize(
    ("table", "options", "complaint"),
    [
        (events().drop_columns(["happened_at"]), {}, "no column of .* is a TIMESTAMP or a DATE.*amount double"),
        (events().select(["happened_at", "order_id", "amount"]), {}, "looks like a key.*Name one with --key"),
        (events(), {"key": "amount"}, '--key amount: the columns .* are "order_id", "shop", "customer_id"'),
        (events(), {"time": "amount"}, '--time amount: the columns .* that can be it are "happened_at"'),
        (events(Key=["x"] * 600), {}, "has a column 'Key'; the name is needed for the pipeline's key"),
        (events(key=["x"] * 600), {"key": "shop"}, "has a column 'key'; the name is needed"),
        (events().slice(0, 0), {}, "there are no rows in"),
    ],
    ids=["no time", "no key", "not a key", "not a time", "nearly key", "key is another", "no rows"],
)
def test_what_cannot_be_guessed_says_what_there_is_and_leaves_no_file(
    place: Path, table: pa.Table, options: dict[str, str], complaint: str
) -> None:
    pq.write_table(table, place / "orders" / "a.parquet")
    with pytest.raises(ConfigError, match=complaint):
        init("shop", "orders", **options)
    assert not list((place / "pipelines").iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["Shop", "--source", "orders"], "cannot be a pipeline's name"),
        (["shop", "--source", "nowhere"], "there is nothing at"),
        (["shop", "--source", "s3://bucket/orders"], "Write s3a://bucket/orders"),
        (
            ["shop", "--source", "hdfs://name:8020/orders"],
            "looked at on this machine's disks and on s3a://, abfss://, gs://",
        ),
        (["shop", "--source", "orders", "--channels", "0"], "there must be at least one"),
        (["shop", "--source", "orders", "--format", "csv"], "there are no csv files in"),
        (["shop", "--source", "orders", "--format", "delta"], "cannot be read as a Delta table"),
    ],
    ids=["name", "nowhere", "another name", "no store", "no channels", "other format", "not delta"],
)
def test_what_cannot_be_looked_at_is_said_in_a_line(
    place: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.fixture
def store(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """A store that only the environment knows of."""
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    return s3


def put(store: S3, name: str, file: Path) -> str:
    store.client().upload_file(str(file), BUCKET, name)
    return f"s3a://{BUCKET}/{name}"


@pytest.mark.parametrize("kind", ["parquet", "csv", "delta"])
def test_a_table_on_an_object_store_is_looked_at_as_on_a_disk(place: Path, store: S3, kind: str) -> None:
    place_there = f"s3a://{BUCKET}/init/{kind}"
    if kind == "delta":
        write_deltalake(str(place / "table"), events(), partition_by=["shop"])
        write_deltalake(place_there, events(), partition_by=["shop"], storage_options=store.options)
        here = str(place / "table")
    elif kind == "csv":
        pyarrow.csv.write_csv(events(), place / "events.csv")
        here, place_there = str(place / "events.csv"), put(store, "init/events.csv", place / "events.csv")
    else:
        here = "orders"
        put(store, "init/parquet/a.parquet", place / "orders" / "a.parquet")
        put(store, "init/parquet/_temporary/a.parquet", place / "orders" / "a.parquet")
    there, local = init("there", place_there)[0], init("here", here)[0]
    assert (there.source.path, there.source.format) == (place_there, kind)
    assert (there.source.key, there.interval, there.channels) == (local.source.key, local.interval, local.channels)
    assert (there.spark.packages, local.spark.packages) == (S3_PACKAGES, ())
    text = there.file.read_text()
    assert f"All 600 rows of {'3 files' if kind == 'delta' else '1 file'} were looked at." in text
    assert SECRET not in text
    assert "path.style.access" in text


def test_a_store_or_a_folder_that_is_not_there_is_said_without_a_word_of_the_request(place: Path, store: S3) -> None:
    with pytest.raises(StoreError, match="it answers NoSuchBucket") as refused:
        init("shop", "s3a://no-such-bucket/orders")
    assert SECRET not in str(refused.value)
    with pytest.raises(ConfigError, match=f"there is nothing at s3a://{BUCKET}/init/nowhere"):
        init("shop", f"s3a://{BUCKET}/init/nowhere")
    with pytest.raises(ConfigError, match="there are no csv files in"):
        init("shop", f"s3a://{BUCKET}/init/nowhere", kind="csv")
    assert not list((place / "pipelines").iterdir())


def test_odd_names_of_columns_and_folders_make_a_file_that_loads(place: Path) -> None:
    table = events().rename_columns(["order_id", "happened_at", "shop", 'customer "x"\n\x7f', "amount"])
    (place / 'o"d\\d').mkdir()
    pq.write_table(table, place / 'o"d\\d' / "a.parquet")
    pipeline, _ = init("odd", 'o"d\\d')
    assert pipeline.source.key == ('customer "x"\n\x7f',)
    assert pipeline.source.path == str(place / 'o"d\\d')
