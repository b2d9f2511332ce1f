"""The package as people install it: its wheel in environments of its own, far from the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest
from packaging.version import Version

from rebalance.spark.environment import OWN_JARS
from tests.support.budget import is_long
from tests.support.markdown import PROJECT
from tests.support.world import make_world

#: The lowest versions of what the package asks for, and the newest then of what those ask for; its first lines say how it is made.
LOWEST = PROJECT / "tests" / "support" / "lowest.txt"
EXTRAS = ("airflow", "pictures", "quality", "spark")
#: What only an extra brings.
HEAVY = ("airflow", "delta", "great_expectations", "matplotlib", "pandas", "pyspark")
DAG_FILE = """\
from rebalance.airflow import pipelines
globals().update(pipelines({folder!r}))
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a place without the repository to use it from."""

    bin: Path
    place: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one of its commands with as little around it as a new user has."""
        environ = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.place),
            "XDG_CACHE_HOME": str(self.place / "cache"),
            "AIRFLOW_HOME": str(self.place / "airflow"),
            **{name: os.environ[name] for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS") if name in os.environ},
        }
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.place,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def python(self, code: str) -> str:
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def uv() -> Path:
    sys.path.insert(0, str(PROJECT / "tools"))
    try:
        from python_env import find_uv
    finally:
        sys.path.pop(0)
    return find_uv()


@pytest.fixture(scope="module")
def install(uv: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Installs the wheel and what it needs: in the versions of the lock file, or as a file lists them; from what was downloaded, if it can."""

    def make(name: str, *extras: str, listed: Path | None = None) -> Installed:
        # Beside the downloads, where installing is linking files; and kept, so that its bytecode is compiled once.
        home = PROJECT / ".cache" / "installed" / name
        environ = {
            **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
            "UV_CACHE_DIR": str(PROJECT / ".cache" / "uv"),
            "UV_PROJECT_ENVIRONMENT": str(home),
            "UV_PYTHON": sys.executable,
        }

        def call(*command: str | Path, check: bool = True) -> int:
            done = subprocess.run([uv, *command], cwd=PROJECT, env=environ, capture_output=True, text=True, check=False)
            assert not check or done.returncode == 0, done.stderr
            return done.returncode

        into: tuple[str | Path, ...] = ("--python", home / "bin" / "python")
        if listed:
            call("venv", "--allow-existing", home)
            needed: tuple[str | Path, ...] = ("pip", "sync", *into, listed)
        else:
            wanted = [word for extra in extras for word in ("--extra", extra)]
            needed = ("sync", "--frozen", "--no-dev", "--no-install-project", *wanted)
        if call(*needed, "--offline", check=False):
            call(*needed)
        call("pip", "install", "--no-deps", "--reinstall", "--offline", *into, wheel)
        call("pip", "check", "--offline", *into)
        place = tmp_path_factory.mktemp(name)
        (place / "cache" / "rebalance").mkdir(parents=True)
        (place / "cache" / "rebalance" / "ivy").symlink_to(OWN_JARS.parent)
        return Installed(home / "bin", place)

    return make


@pytest.fixture(scope="module")
def full(install: Callable[..., Installed]) -> Installed:
    """With everything that a worker of Airflow needs, and a pipeline that has run one interval."""
    installed = install("full", "airflow", "quality", "spark")
    make_world(installed.place / "pipelines", planner="keep", intervals=1)
    (installed.place / "dag_file.py").write_text(DAG_FILE.format(folder=str(installed.place / "pipelines")))
    return installed


def test_the_wheel_has_every_file_of_the_page_in_airflow(wheel: Path) -> None:
    shipped = set(ZipFile(wheel).namelist())
    files = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "rebalance/airflow/web").rglob("*.*")}
    assert {"rebalance/airflow/web/static/index.html", "rebalance/airflow/web/static/vendor/uPlot.LICENSE"} <= files
    assert {file for file in files if not file.endswith(".pyc")} <= shipped


def test_an_installed_package_runs_an_interval_without_the_repository(full: Installed) -> None:
    assert "/installed/full/" in full.python("import rebalance; print(rebalance.__file__)")
    done = full.run("rebalance", "run", "world", "--intervals", "1")
    assert done.returncode == 0, done.stderr
    assert "1 interval done: all results are there" in done.stdout
    assert "WARNING" not in done.stdout
    assert pl.read_delta(str(full.place / "pipelines" / "tables" / "results")).height > 0
    assert "epoch" in full.run("rebalance", "status", "world").stdout


def test_two_lines_in_a_dag_file_make_the_dags_and_airflow_finds_the_plugin(full: Installed) -> None:
    code = "import dag_file; print(sorted(name for name in vars(dag_file) if name.startswith('rebalance_')))"
    assert full.python(code) == "['rebalance_world', 'rebalance_world_maintain', 'rebalance_world_rewind']"
    code = "from importlib.metadata import entry_points as e; print([p.load().name for p in e(group='airflow.plugins') if p.name == 'rebalance'])"
    assert full.python(code) == "['rebalance']"


def test_a_base_install_is_light_looks_and_simulates_and_names_the_extra_for_the_rest(
    install: Callable[..., Installed], full: Installed
) -> None:
    base = install("base")
    file = str(full.place / "pipelines" / "world.toml")
    found = base.python(f"from importlib.util import find_spec; print([name for name in {HEAVY} if find_spec(name)])")
    assert found == "[]"
    for verb in (["status"], ["inspect"], ["plan", "--dry-run"]):
        done = base.run("rebalance", verb[0], file, *verb[1:])
        assert done.returncode == 0, done.stderr
    done = base.run("python", "-m", "rebalance.simulate", "--tuples", "1000", "--schemes", "SG,PKG")
    assert done.returncode == 0, done.stderr
    done = base.run("rebalance", "run", file, "--intervals", "1")
    assert done.returncode == 4
    assert "pip install 'PATH[spark]'" in done.stderr
    done = base.run("python", "-c", "from rebalance.airflow import pipelines; pipelines('.')")
    assert "pip install 'PATH[airflow]'" in done.stderr


def lowest() -> dict[str, str]:
    """The lower bounds of what the package needs, with its extras for Airflow's workers and pictures."""
    about = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = about["optional-dependencies"]
    wanted = [*about["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    found = [re.fullmatch(r"([\w-]+)[=>]=([\d.]+).*", line) for line in wanted]
    return {match[1]: match[2] for match in found if match}


def test_the_listed_versions_are_the_lower_bounds() -> None:
    listed = dict(re.findall(r"^([\w-]+)==(\S+)", LOWEST.read_text(), re.MULTILINE))
    assert {name: Version(listed[name]) for name in lowest()} == {name: Version(low) for name, low in lowest().items()}


@pytest.mark.skipif(not is_long(), reason="another environment of 1.3 GB: in make test-long")
def test_an_interval_runs_on_the_lowest_versions_of_everything(install: Callable[..., Installed]) -> None:
    old = install("lowest", listed=LOWEST)
    make_world(old.place / "pipelines", intervals=2)
    (old.place / "dag_file.py").write_text(DAG_FILE.format(folder=str(old.place / "pipelines")))
    done = old.run("rebalance", "run", "world", "--intervals", "2")
    assert done.returncode == 0, done.stderr
    assert "2 intervals done: all results are there" in done.stdout
    assert "WARNING" not in done.stdout
    for verb in (["status"], ["inspect"], ["plan", "--dry-run"], ["maintain"]):
        assert old.run("rebalance", verb[0], "world", *verb[1:]).returncode == 0
    code = "import dag_file; print(len([name for name in vars(dag_file) if name.startswith('rebalance_')]))"
    assert old.python(code) == "3"
