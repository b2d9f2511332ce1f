"""docker/ for form: no engine is needed to see that its files fit together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalance.pipeline.file import load_pipeline

DOCKER = Path(__file__).resolve().parents[2] / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE_TEXT = (DOCKER / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_the_cluster_is_airflow_on_postgres_with_a_spark_master_and_two_workers() -> None:
    assert set(SERVICES) == {
        "postgres",
        "prepare",
        "airflow-api",
        "airflow-scheduler",
        "airflow-dag-processor",
        "spark-master",
        "spark-worker",
    }
    assert SERVICES["spark-worker"]["deploy"]["replicas"] == 2


def test_every_service_waits_for_services_that_exist_and_can_become_what_it_waits_for() -> None:
    for service in SERVICES.values():
        for other, wait in service.get("depends_on", {}).items():
            assert other in SERVICES
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]
            if wait["condition"] == "service_completed_successfully":
                assert SERVICES[other]["restart"] == "on-failure"


def test_every_named_volume_is_declared_and_used() -> None:
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert used == set(COMPOSE["volumes"])


def test_what_reads_and_writes_the_tables_sees_them_under_the_same_name() -> None:
    pipeline = load_pipeline(DOCKER / "pipelines" / "demo.toml")
    assert pipeline.tables.startswith("/data/")
    assert pipeline.source.path.startswith("/data/")
    for name in ("prepare", "airflow-scheduler", "spark-worker"):
        assert "data:/data" in SERVICES[name]["volumes"]


def test_the_pipeline_runs_on_the_cluster_of_the_compose_file() -> None:
    master = load_pipeline(DOCKER / "pipelines" / "demo.toml").spark.master
    assert master in SERVICES["spark-worker"]["command"]
    assert master == "spark://spark-master:7077"
    assert SERVICES["spark-master"]["command"][2:6] == ["--host", "spark-master", "--port", "7077"]


def test_pages_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_secret_comes_from_the_environment_file_and_none_has_a_value_in_version_control() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE_TEXT))
    assert asked == set(re.findall(r"\$\{([A-Z_]+)", COMPOSE_TEXT)), "a secret without ':?' would silently be empty"
    offered = dict(
        line.split("=", 1) for line in (DOCKER / "env.example").read_text().splitlines() if not line.startswith("#")
    )
    assert set(offered) == asked
    assert set(offered.values()) == {""}
    assert "/docker/.env" in (DOCKER.parent / ".gitignore").read_text().splitlines()
    assert "docker/.env" in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()


def test_the_image_is_built_from_the_lock_file_and_does_not_run_as_root() -> None:
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1] not in ("root", "0")
    syncs = re.findall(r"uv sync .*", DOCKERFILE)
    assert syncs
    assert all("--frozen --no-dev --extra all --extra postgres" in sync for sync in syncs)
    assert re.search(r"^FROM \S+:\S+$", DOCKERFILE, re.MULTILINE), "the base image needs a tag"


@pytest.mark.parametrize("source", re.findall(r"^COPY \S+ (.+) \S+$", DOCKERFILE, re.MULTILINE))
def test_what_is_copied_exists_and_is_not_ignored(source: str) -> None:
    allowed = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    for name in source.split():
        assert (DOCKER.parent / name).exists()
        assert f"!{name}" in allowed
