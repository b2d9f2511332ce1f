"""What a shell is told when somebody presses Tab, by the shells themselves where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rebalance.cli.completion import SHELLS, candidates
from rebalance.cli.parser import make_parser
from rebalance.planners.registry import PLANNERS
from tests.support.markdown import PROJECT


def words_for(*words: str) -> list[str]:
    return candidates(make_parser(), words)


def test_completion_knows_verbs_options_pipelines_and_planners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shop", "shoes", "clicks"):
        (tmp_path / f"{name}.toml").write_text("")
    monkeypatch.setenv("REBALANCE_PIPELINES", str(tmp_path))
    assert {"init", "run", "status", "completion"} <= set(words_for(""))
    assert words_for("ex") == ["explain"]
    assert words_for("status", "sh") == ["shoes", "shop"]
    assert words_for("status", "shop", "--l") == ["--last"]
    assert words_for("status", "--last", "3", "cl") == ["clicks"]
    assert words_for("plan", "shop", "--planner", "mi") == [name for name in PLANNERS if name.startswith("mi")]
    assert words_for("init", "new", "--format", "") == ["delta", "parquet", "csv", "json"]
    assert words_for("completion", "") == ["bash", "zsh", "fish"]
    assert "--json" in words_for("approve", "shop", "--")
    for words in (["explain", "shop", ""], ["nonsense", ""], ["status", "shop", "--last", ""]):
        assert words_for(*words) == [], words


ASKING: dict[str, Sequence[str]] = {
    "bash": (
        "bash",
        "-c",
        'source /dev/stdin; COMP_WORDS=(rebalance plan shop --planner "$1"); COMP_CWORD=4; _rebalance; echo "${COMPREPLY[*]}"',
        "-",
        "minm",
    ),
    "fish": ("fish", "-c", "source -; complete -C 'rebalance plan shop --planner minm'"),
    "zsh": (
        "zsh",
        "-fc",
        "compdef() {}; compadd() { print -r -- ${(P)2} }; source /dev/stdin; words=(rebalance plan shop --planner minm); CURRENT=5; _rebalance",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_its_words_from_the_command_itself(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    # The command as it is installed, whatever the path of this process is.
    command = tmp_path / "rebalance"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -m rebalance.cli "$@"\n')
    command.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run(
        ASKING[shell], input=SHELLS[shell], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert asked.stdout.split() == ["minmig"], asked.stderr


def test_completion_and_help_import_next_to_nothing() -> None:
    code = (
        "import sys; from rebalance.cli import main; main(['__complete', 'status', '']); "
        "heavy = {'numpy', 'pydantic', 'pyarrow', 'rich', 'deltalake'} & sys.modules.keys(); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
