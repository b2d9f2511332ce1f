"""A standalone Spark cluster on this machine, from pip's pyspark, whose executors have a Python that knows nothing of this project."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
from pyspark.find_spark_home import _find_spark_home

from rebalance.spark.environment import use_java

#: What a function per key needs on an executor; pyspark itself comes with Spark.
NEEDED = (
    "numpy",
    "numpy.libs",
    "pandas",
    "pyarrow",
    "pyarrow.libs",
    "dateutil",
    "pytz",
    "six.py",
    "tzdata",
)
#: Variables that a cluster's machines do not have from the driver's.
_OURS = ("PYTHONPATH", "PYSPARK_", "SPARK_", "AIRFLOW", "REBALANCE_", "VIRTUAL_ENV")
_PATIENCE = 60.0
#: A test that is killed leaves no cluster behind: Linux is told to kill with us (PR_SET_PDEATHSIG) what this then becomes.
_BOUND = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
DIES_WITH_US = (sys.executable, "-SE", "-c", _BOUND)


def foreign_python(folder: Path) -> Path:
    """An interpreter of this version with what a function per key needs, and without this project."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = Path(pyarrow.__file__).parents[1]
    for name in NEEDED:
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    return folder / "bin" / "python"


@dataclass
class Cluster:
    """A master and its workers, each with a folder for its work and its log."""

    folder: Path
    address: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_master(self) -> None:
        """Start the master and wait until it listens."""
        port = free_port()
        self.address = f"spark://127.0.0.1:{port}"
        self._start("master", "master.Master", "--port", str(port), until="I have been elected leader")

    def start_worker(self) -> None:
        """Start one more worker with one core; it registers by itself, in some seconds."""
        name = f"worker{len(self.started)}"
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name), self.address]
        self._start(name, "worker.Worker", *own)

    def stop(self) -> None:
        """End all of it."""
        for process in reversed(self.started):
            process.kill()
            process.wait()

    def _start(self, name: str, what: str, *arguments: str, until: str = "") -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        use_java(environ)
        environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        log = self.folder / f"{name}.log"
        command = [
            *DIES_WITH_US,
            str(Path(_find_spark_home()) / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{what}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                env=environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        deadline = time.monotonic() + _PATIENCE
        while until and until not in log.read_text():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)


def free_port() -> int:
    """A port of this machine that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
