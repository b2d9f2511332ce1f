"""Spark's settings: what a cluster's own configuration says is kept, and Delta is added to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import session
from rebalance.spark.defaults import brings_delta, joined, spark_defaults
from rebalance.spark.session import _settings

DEMO = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "demo.toml"
CLUSTER = """
# A cluster's own
spark.master            spark://head:7077
spark.sql.extensions=com.example.Audit
spark.jars              /opt/audit.jar
spark.eventLog.enabled: true
spark.sql.catalog.spark_catalog com.example.Catalog
not.a.setting of Spark
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that is set up for a cluster."""
    (tmp_path / "spark-defaults.conf").write_text(CLUSTER)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def without_master() -> Pipeline:
    """The demo's pipeline, with nothing said of where Spark runs."""
    demo = load_pipeline(DEMO)
    return demo.model_copy(update={"spark": demo.spark.model_validate({})})


def test_spark_defaults_are_read_as_sparks_launcher_reads_them(cluster: Path) -> None:
    assert spark_defaults(cluster / "elsewhere") == {
        "spark.master": "spark://head:7077",
        "spark.sql.extensions": "com.example.Audit",
        "spark.jars": "/opt/audit.jar",
        "spark.eventLog.enabled": "true",
        "spark.sql.catalog.spark_catalog": "com.example.Catalog",
    }
    assert spark_defaults(cluster, {}) == {}, "there is no folder conf in it"


def test_a_cluster_keeps_its_extensions_catalog_jars_and_master_and_has_deltas_beside_them(cluster: Path) -> None:
    settings, submitted = _settings(without_master(), {"spark.jars": "/opt/mine.jar"})
    assert not submitted
    assert settings["spark.master"] == "spark://head:7077"
    assert settings["spark.sql.extensions"].split(",") == [session._DELTA_EXTENSION, "com.example.Audit"]
    assert settings["spark.sql.catalog.spark_catalog"] == "com.example.Catalog"
    assert settings["spark.jars"] == "/opt/audit.jar,/opt/mine.jar"
    assert not brings_delta(settings), "so Delta's own jars are still to be added"


def test_on_a_cluster_sparks_pages_and_memory_are_the_clusters_own(cluster: Path) -> None:
    settings, _ = _settings(without_master(), {})
    assert not {"spark.ui.enabled", "spark.driver.memory", "spark.sql.shuffle.partitions"} & settings.keys()


def test_the_pipeline_files_master_wins_over_the_clusters(cluster: Path) -> None:
    settings, _ = _settings(load_pipeline(DEMO, {"spark": {"master": "local[2]"}}), {})
    assert (settings["spark.master"], settings["spark.ui.enabled"]) == ("local[2]", "false")


def test_of_lists_every_layers_entries_stay_once_and_of_others_the_last_word() -> None:
    found = joined({"spark.jars": "a.jar, b.jar", "spark.x": "1"}, {"spark.jars": "b.jar,c.jar", "spark.x": "2,3"})
    assert found == {"spark.jars": "a.jar,b.jar,c.jar", "spark.x": "2,3"}


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.jars": "/opt/delta-spark_4.2_2.13-4.4.0.jar"},
        {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"},
        {"spark.driver.extraClassPath": "/opt/delta-spark_4.2_2.13-4.4.0.jar"},
    ],
)
def test_delta_is_not_added_where_the_settings_have_it(settings: dict[str, str]) -> None:
    assert brings_delta(settings)
