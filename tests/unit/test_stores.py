"""Object stores as places of tables: what a pipeline file may say of them, who is told what, and the small tables on a real S3 server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from rebalance.errors import ConfigError, OvertakenError, StoreError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import warm
from rebalance.storage import control
from rebalance.storage.cleaning import clean
from rebalance.storage.delta_log import TableFiles
from rebalance.storage.entries import commit_entry, create_table, restore
from rebalance.storage.epochs import all_epochs, current_epoch, publish
from rebalance.stores.access import require_reachable
from rebalance.stores.places import for_spark, is_secret, options_of, remember, spark_settings, store_options
from tests.support.budget import cases
from tests.support.s3 import BUCKET, S3, SECRET
from tests.unit.test_epochs import RACER


@pytest.fixture
def root(s3: S3, request: pytest.FixtureRequest) -> str:
    """An empty table root on the server, which this process has the credentials of."""
    found = f"s3a://{BUCKET}/{request.node.originalname}-{len(request.node.name)}"
    remember(found, s3.settings)
    return found


def load(folder: Path, tables: str = "tables", source: str = "events", more: str = "") -> Pipeline:
    file = folder / "p.toml"
    file.write_text(
        f"""
tables = "{tables}"
[source]
path = "{source}"
key = "k"
time = "t"
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "distinct"
[operator.parameters]
value = "v"
[quality]
docs = "docs"
{more}
"""
    )
    return load_pipeline(file)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://lake/t", "Spark's name for S3 is s3a. Write s3a://lake/t"),
        ("s3a:///t", "does not say which bucket. Write s3a://bucket/folder"),
        ("abfss://container/t", "does not say which container and account"),
        ("hdfs://name:8020/t", r"on one of s3a://, abfss://, gs://. Others have no conditional put"),
        ("s3a://key:hidden@lake/t", "no password"),
        ("s3a://lake/t?x=1", r"no '\?'"),
        ("s3a://lake/t[1]", r"\[ in it"),
        ("gs://lake/my tables", "a space in it"),
    ],
)
def test_a_place_where_tables_cannot_be_is_refused_when_the_file_is_read(tmp_path: Path, place: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        load(tmp_path, tables=place)
    assert "hidden" not in str(refused.value)


def test_events_may_be_wherever_spark_can_read_them(tmp_path: Path) -> None:
    assert load(tmp_path, source="hdfs://name:8020/events").source.path == "hdfs://name:8020/events"
    with pytest.raises(ConfigError, match="Write s3a://lake/e"):
        load(tmp_path, source="s3://lake/e")


def test_a_local_path_is_the_same_place_for_spark_whatever_its_default_file_system_is(tmp_path: Path) -> None:
    for written in ("tables", str(tmp_path / "tables"), f"file://{tmp_path}/tables", f"file:{tmp_path}/tables/"):
        pipeline = load(tmp_path, tables=written)
        assert pipeline.tables == f"{tmp_path}/tables"
        assert for_spark(pipeline.tables) == f"file://{tmp_path}/tables"


def test_delta_rs_is_told_what_spark_is_told() -> None:
    said = {
        "spark.hadoop.fs.s3a.access.key": "k",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.bucket.lake.secret.key": "the lake's own",
        "spark.hadoop.fs.s3a.endpoint": "minio:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    environ = {"AWS_REGION": "eu-west-1", "AWS_SESSION_TOKEN": "of another key", "AWS_SECRET_ACCESS_KEY": "unused"}
    assert store_options("s3a://lake/t", said, environ) == {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "the lake's own",
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_REGION": "eu-west-1",
        "AWS_ALLOW_HTTP": "true",
    }
    # And Spark what only the environment says.
    assert spark_settings("s3a://lake/t", said, environ) == {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}
    account = "abfss://c@acc.dfs.core.windows.net/t"
    key = {"spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": "k"}
    assert store_options(account, key, {}) == {"AZURE_STORAGE_ACCOUNT_KEY": "k"}
    assert store_options("gs://lake/t", {"spark.hadoop.fs.gs.auth.service.account.json.keyfile": "f"}, {}) == {
        "GOOGLE_SERVICE_ACCOUNT": "f"
    }
    assert options_of("/local/t") == {}


def test_secrets_are_not_among_the_arguments_that_a_jvm_is_started_with() -> None:
    said = {"spark.hadoop.fs.s3a.secret.key": "s", "spark.hadoop.fs.s3a.endpoint": "e", "spark.sql.x": "1"}
    assert [name for name in said if is_secret(name)] == ["spark.hadoop.fs.s3a.secret.key"]
    for name in ("access.key", "session.token", "bucket.lake.secret.key"):
        assert is_secret(f"spark.hadoop.fs.s3a.{name}")
    command = warm._command(said, Path("/spark"))
    assert "spark.hadoop.fs.s3a.endpoint=e" in command
    assert not [word for word in command if "secret" in word]


def test_a_setting_of_the_wrong_type_is_named_without_its_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spark\.settings\.spark\.hadoop\.fs\.s3a\.secret\.key: ") as refused:
        load(tmp_path, more='[spark.settings]\n"spark.hadoop.fs.s3a.secret.key" = 4711')
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize("package", ["hadoop-aws", "org.apache.hadoop:hadoop-aws", "a:b:c,d:e:f"])
def test_a_package_without_group_name_and_version_is_refused(tmp_path: Path, package: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.packages"):
        load(tmp_path, more=f'[spark]\npackages = ["{package}"]')


@pytest.mark.parametrize(("bucket", "endpoint"), [("nobody-has-it", None), (BUCKET, "http://127.0.0.1:9")])
def test_a_store_that_cannot_be_used_is_refused_with_what_to_set_and_no_secret(
    s3: S3, bucket: str, endpoint: str | None
) -> None:
    root = f"s3a://{bucket}/unreachable{len(endpoint or '')}"
    remember(root, s3.settings | ({"spark.hadoop.fs.s3a.endpoint": endpoint} if endpoint else {}))
    with pytest.raises(StoreError, match=r"cannot be used: .*set AWS_ACCESS_KEY_ID") as refused:
        control.exists(root, "epochs")
    assert SECRET not in str(refused.value)
    assert ("NoSuchBucket" in str(refused.value)) == (endpoint is None)
    with pytest.raises(StoreError):
        require_reachable(root)


def test_the_small_tables_are_the_same_on_a_store(s3: S3, root: str) -> None:
    row = {"interval_id": "a", "function_version": 0, "rows": 1, "seconds": 0.0}
    assert not control.exists(root, "batches")
    control.append(root, "batches", [row])
    control.replace(root, "batches", [{**row, "rows": 2}], interval_id="a")
    assert control.append_at(root, "batches", [{**row, "interval_id": "b"}], 2)
    assert not control.append_at(root, "batches", [{**row, "interval_id": "c"}], 2)
    control.delete(root, "batches", interval_id="b")
    assert [(r["interval_id"], r["rows"]) for r in control.rows(root, "batches")] == [("a", 2)]
    # Another client, with credentials of its own.
    assert pl.read_delta(f"{root}/batches", storage_options=s3.options)["rows"].to_list() == [2]


def test_of_writers_on_a_store_that_race_for_an_epoch_exactly_one_wins(s3: S3, root: str) -> None:
    racer = (
        "import sys, json\nfrom rebalance.stores.places import remember\nremember(sys.argv[1], json.loads(sys.argv[4]))"
    )
    command = [sys.executable, "-c", racer + RACER, root]
    said = json.dumps(s3.settings)
    racers = [subprocess.Popen([*command, name, "12", said], stdout=subprocess.PIPE, text=True) for name in "ab"]
    won = {name: racer.communicate()[0].split() for name, racer in zip("ab", racers, strict=True)}
    assert [racer.returncode for racer in racers] == [0, 0]
    assert Counter(number for numbers in won.values() for number in numbers) == Counter(map(str, range(12)))
    stored = [(str(epoch.epoch), epoch.interval_id) for epoch in all_epochs(root)]
    assert stored == [(str(n), name) for n in range(12) for name in "ab" if str(n) in won[name]]
    with pytest.raises(OvertakenError):
        publish(root, None, kind="start", function_version=0, state_version=-1)
    assert current_epoch(root) == all_epochs(root)[-1]


COLUMNS = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize("place", ["disk", "store"])
def test_an_entry_of_our_own_never_takes_the_place_of_another_and_a_restored_version_is_what_it_was(
    root: str, tmp_path: Path, place: str
) -> None:
    where = root if place == "store" else str(tmp_path)
    create_table(where, "state", COLUMNS, partition_by=[], properties={}, features=["deletionVectors"])
    with pytest.raises(OvertakenError, match=r"another process has written to it since\. Nothing was committed"):
        create_table(where, "state", COLUMNS, partition_by=[], properties={}, features=[])
    protocol = control.open_table(where, "state").protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (3, ["deletionVectors"])
    add = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    hides = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": 3,
        "cardinality": 1,
    }
    commit_entry(where, "state", 1, [{"add": add}], operation="one", comment="")
    with pytest.raises(OvertakenError):
        commit_entry(where, "state", 1, [{"add": add}], operation="two", comment="")
    changed = [{"remove": {**add, "deletionTimestamp": 0}}, {"add": {**add, "deletionVector": hides}}]
    commit_entry(where, "state", 2, [*changed, {"add": {**add, "path": "b.parquet"}}], operation="two", comment="")
    restore(where, "state", 1, "back")
    found = TableFiles(where, "state")
    assert (found.head, found.actions(1)[0]["commitInfo"]["operation"]) == (3, "one")
    assert found.files_at(3) == found.files_at(1)
    restore(where, "state", 2, "forth")
    assert TableFiles(where, "state").files_at(4).keys() == {"a.parquet", "b.parquet"}
    assert TableFiles(where, "state").files_at(4)["a.parquet"]["deletionVector"] == hides


#: Commits to one log as often as it is told, by entries of our own as a migration does, or by delta-rs; prints how often it was the first.
WRITER = """
import json, sys
import pyarrow as pa
from deltalake import write_deltalake
from rebalance.errors import OvertakenError
from rebalance.storage import control
from rebalance.storage.entries import commit_entry
from rebalance.stores.places import options_of, remember

root, settings, how, times = sys.argv[1:]
remember(root, json.loads(settings))
done = 0
while done < int(times):
    if how == "delta-rs":
        path = control.table_path(root, "state")
        write_deltalake(path, pa.table({"n": [done]}), mode="append", storage_options=options_of(path))
        done += 1
        continue
    add = {"path": f"{done}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    try:
        after = control.version(root, "state")
        commit_entry(root, "state", after + 1, [{"add": add}], operation=how, comment="")
        done += 1
    except OvertakenError:
        pass
"""


@pytest.mark.parametrize("place", ["disk", "store"])
def test_entries_of_our_own_beside_commits_of_delta_rs_lose_none_and_double_none(
    s3: S3, root: str, tmp_path: Path, place: str
) -> None:
    where, times = root if place == "store" else str(tmp_path), cases(12, long=300)
    create_table(where, "state", COLUMNS, partition_by=[], properties={}, features=[])
    command = [sys.executable, "-c", WRITER, where, json.dumps(s3.settings)]
    writers = [subprocess.Popen([*command, how, str(times)]) for how in ("ours", "delta-rs")]
    assert [writer.wait(timeout=600) for writer in writers] == [0, 0]
    found = TableFiles(where, "state")
    said = Counter(found.actions(version)[0]["commitInfo"]["operation"] for version in range(1, found.head + 1))
    assert said == {"ours": times, "WRITE": times}
    assert len(found.files_at(found.head)) == 2 * times


def test_maintenance_removes_from_a_store_what_it_removes_from_a_disk(root: str, tmp_path: Path) -> None:
    left = []
    for where in (root, str(tmp_path)):
        for number in range(12):
            row = {"interval_id": "a", "function_version": 0, "rows": number, "seconds": 0.0}
            control.replace(where, "batches", [row], interval_id="a")
        cleaned = clean(where, "batches", needed=None, unused_since=datetime.now(UTC) + timedelta(days=1))
        assert (len(cleaned.files), cleaned.checkpoints) == (11, (11,))
        assert [row["rows"] for row in control.rows(where, "batches")] == [11]
        left.append(sorted(file.path for file in TableFiles(where, "batches").all if file.path.startswith("_")))
    assert left[0] == left[1]
