"""docker/compose.yaml without Docker: the services made of this project's image as plain processes of this machine.

Commands, environments, health checks, numbers of replicas and who waits for whom are the file's own, and what the image adds to the
environment is the Dockerfile's. Only names of services become 127.0.0.1, their ports free ones, and the image's folders those of a test. Services of other
images, a database for one, are started by somebody else, who says on which ports.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from rebalance.spark.environment import use_java
from tests.support.cluster import free_port
from tests.support.container import in_container

PROJECT = Path(__file__).resolve().parents[2]
DOCKER = PROJECT / "docker"
#: Of this machine, what a container has too.
_KEPT = ("HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "LANG", "PATH")
_PATIENCE = 240.0


class Compose:
    """The services, and the processes that they are."""

    def __init__(
        self, folder: Path, secrets: Mapping[str, str], others: Mapping[str, int], extra: Mapping[str, str]
    ) -> None:
        """`others` are ports by service, as `store:9000`; `extra` is added to everybody's environment."""
        self.folder, self.extra = folder, extra
        text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda asked: secrets[asked[1]], (DOCKER / "compose.yaml").read_text())
        every: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
        self.services = {name: service for name, service in every.items() if "build" in service}
        self.dockerfile = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
        named = set(re.findall(rf"\b({'|'.join(every)}):(\d+)(?![\w.-])", text))
        self.ports = {port: str(others.get(f"{name}:{port}") or free_port()) for name, port in named}
        self._name = re.compile(rf"(?<![\w.-])({'|'.join(every)})(?=:\d|$)")
        self._port = re.compile(rf"(?<![\w.])({'|'.join(self.ports)})(?![\w.])")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._healthy = set(every) - set(self.services)

    def up(self) -> None:
        """Start all of them, each as soon as those it waits for are what it waits for."""
        left, deadline = dict(self.services), time.monotonic() + _PATIENCE
        while left or not all(self._is(name, "service_healthy") for name in self.services):
            for name, service in list(left.items()):
                waits = service.get("depends_on", {}).items()
                if all(other not in left and self._is(other, wait["condition"]) for other, wait in waits):
                    for container in self.containers(name):
                        self.start(container)
                    del left[name]
            assert time.monotonic() < deadline, f"{', '.join(left)} cannot start\n{self.told()}"
            time.sleep(0.2)

    def containers(self, name: str) -> list[str]:
        """What a service's containers are called."""
        replicas = self.services[name].get("deploy", {}).get("replicas", 1)
        return [f"{name}-{number}" for number in range(1, replicas + 1)]

    def start(self, container: str) -> None:
        """Start one of them, or start it again."""
        name = container.rpartition("-")[0]
        (self.folder / container).mkdir(parents=True, exist_ok=True)
        command = [self.localized(word, container) for word in self.services[name]["command"]]
        (workdir,) = re.findall(r"^WORKDIR (.*)$", self.dockerfile, re.MULTILINE)
        with (self.folder / f"{container}.log").open("ab") as log:
            self.running[container] = subprocess.Popen(
                in_container(command),
                env=self.environment(name, container),
                cwd=self.localized(workdir),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, container: str) -> None:
        """End it as `kill -9` of every process in it does."""
        process = self.running.pop(container)
        process.terminate()
        process.wait()

    def down(self) -> None:
        """End all of them."""
        for container in reversed(list(self.running)):
            self.kill(container)

    def log(self, container: str) -> str:
        """What it has said."""
        return (self.folder / f"{container}.log").read_text()

    def told(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"== {container}\n{self.log(container)[-1500:]}" for container in self.running)

    def localized(self, word: str, container: str = "any") -> str:
        """A text of the file as it is on this machine."""
        folders = {
            "/opt/rebalance": PROJECT,
            "/opt/airflow": self.folder / "airflow",
            "/data": self.folder / "data",
            "/tmp": self.folder / container,
        }
        word = self._port.sub(lambda port: self.ports[port[0]], self._name.sub("127.0.0.1", word))
        return re.sub(rf"(?<![\w/])({'|'.join(folders)})(?=[/:\s]|$)", lambda path: str(folders[path[0]]), word)

    def environment(self, name: str, container: str = "any") -> dict[str, str]:
        """What a service finds in its environment."""
        environ = {word: os.environ[word] for word in _KEPT if word in os.environ}
        use_java(environ)
        (image,) = re.findall(r"^ENV (.*)$", self.dockerfile, re.MULTILINE)
        own = {**dict(word.split("=", 1) for word in shlex.split(image)), **self.services[name].get("environment", {})}
        return (
            environ
            | {word: Template(self.localized(value, container)).substitute(environ) for word, value in own.items()}
            | dict(self.extra)
        )

    def _is(self, name: str, condition: str) -> bool:
        """Whether a service is what somebody waits for."""
        if name in self._healthy:
            return True
        ends = {
            container: self.running[container].poll()
            for container in self.containers(name)
            if container in self.running
        }
        failed = [container for container, code in ends.items() if code]
        assert not failed, f"{failed[0]} has ended\n{self.log(failed[0])[-5000:]}"
        if condition == "service_completed_successfully":
            return all(code == 0 for code in ends.values())
        if self._passes(name):
            self._healthy.add(name)
        return name in self._healthy

    def _passes(self, name: str) -> bool:
        """Whether its health check is content; one that has none is healthy."""
        if "healthcheck" not in self.services[name]:
            return True
        kind, *test = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        checked = subprocess.run(
            [self.localized(word) for word in test], env=self.environment(name), capture_output=True, check=False
        )
        return checked.returncode == 0
