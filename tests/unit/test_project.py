"""What the project promises about itself: its licence, its types, and the checks before a commit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml


def lint_commands(makefile: str) -> list[str]:
    """The commands of `make lint`, with the Makefile's own variables filled in."""
    variables = dict(re.findall(r"^(\w+) :?= (.*)$", makefile, re.MULTILINE))
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    filled = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], recipe)
    return [line.strip().lstrip("@") for line in filled.splitlines()]


def test_the_hooks_before_a_commit_run_what_make_lint_runs_and_fetch_nothing(project: Path) -> None:
    repos = yaml.safe_load((project / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    hooks = repos[0]["hooks"]
    assert [hook["entry"] for hook in hooks] == lint_commands((project / "Makefile").read_text())
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


def test_the_licence_is_apache_2_and_is_shipped(project: Path) -> None:
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert about["license"] == "Apache-2.0"
    assert about["license-files"] == ["LICENSE"]
    text = (project / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_users_of_the_package_get_its_types(project: Path) -> None:
    build = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "rebalance" in build["packages"]
    assert (project / "rebalance" / "py.typed").is_file()
