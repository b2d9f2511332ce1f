"""docker/ for form: no engine is needed to see that its files fit together. `tests/stack` runs its services."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

from rebalance.pipeline.file import load_pipeline
from rebalance.spark.jars import S3_PACKAGES

DOCKER = Path(__file__).resolve().parents[2] / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE_TEXT = (DOCKER / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PIPELINE = load_pipeline(DOCKER / "demo.toml")


def test_the_parts_are_airflow_on_postgres_an_object_store_and_a_spark_master_with_two_workers() -> None:
    assert set(SERVICES) == {
        "postgres",
        "store",
        "prepare",
        "airflow-api",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
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


def test_a_volume_s_folder_belongs_to_whoever_the_image_runs_as() -> None:
    """Docker makes a folder that the image has not for root."""
    (made,) = re.findall(r"install --directory --owner=rebalance (.*)", DOCKERFILE)
    mounted = {
        volume.split(":")[1]
        for service in SERVICES.values()
        if "build" in service
        for volume in service.get("volumes", ())
    }
    assert mounted <= set(made.split())


def test_the_pipeline_keeps_events_and_tables_on_the_store_and_pages_where_airflow_s_parts_see_them() -> None:
    assert PIPELINE.tables.startswith("s3a://rebalance/")
    assert PIPELINE.source.path.startswith("s3a://rebalance/")
    assert (PIPELINE.quality.docs or "").startswith("/data/")
    for name in ("prepare", "airflow-scheduler", "airflow-dag-processor"):
        assert "data:/data" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["REBALANCE_PIPELINES"].startswith("/data/")


def test_the_pipeline_has_the_jars_that_the_image_has_and_no_credentials() -> None:
    assert PIPELINE.spark.packages == S3_PACKAGES
    assert not [name for name in PIPELINE.spark.settings if "key" in name or "endpoint" in name]


def test_who_works_on_tables_reaches_the_store_as_whom_it_knows() -> None:
    store = SERVICES["store"]["environment"]
    for name in ("prepare", "airflow-scheduler"):
        environ = SERVICES[name]["environment"]
        assert environ["AWS_ENDPOINT_URL"] == "http://store:9000"
        assert environ["AWS_ACCESS_KEY_ID"] == store["MINIO_ROOT_USER"]
        assert environ["AWS_SECRET_ACCESS_KEY"] == store["MINIO_ROOT_PASSWORD"]


def test_what_a_scheduler_leaves_behind_is_looked_for_within_a_minute() -> None:
    assert int(SERVICES["airflow-scheduler"]["environment"]["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"]) <= 30


def test_the_pipeline_runs_on_the_cluster_of_the_compose_file() -> None:
    master = PIPELINE.spark.master
    assert master in SERVICES["spark-worker"]["command"]
    assert master == "spark://spark-master:7077"
    assert SERVICES["spark-master"]["command"][2:6] == ["--host", "spark-master", "--port", "7077"]
    worker = SERVICES["spark-worker"]
    cores = worker["deploy"]["replicas"] * int(worker["command"][worker["command"].index("--cores") + 1])
    assert PIPELINE.channels.count == cores == int(PIPELINE.spark.settings["spark.cores.max"])


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


def test_secrets_are_made_new_for_their_owner_alone_and_are_left_as_they_are(tmp_path: Path) -> None:
    for name in ("make_env.sh", "env.example"):
        shutil.copy(DOCKER / name, tmp_path)
    subprocess.run(["sh", tmp_path / "make_env.sh"], check=True)
    made = tmp_path / ".env"
    secrets = dict(line.split("=", 1) for line in made.read_text().splitlines())
    assert list(secrets) == re.findall(r"^([A-Z_]+)=", (DOCKER / "env.example").read_text(), re.MULTILINE)
    Fernet(secrets.pop("FERNET_KEY"))
    assert all(re.fullmatch("[0-9a-f]{64}", secret) for secret in secrets.values())
    assert len(set(secrets.values())) == len(secrets)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    subprocess.run(["sh", tmp_path / "make_env.sh"], check=True)
    assert dict(line.split("=", 1) for line in made.read_text().splitlines()).items() >= secrets.items()


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
