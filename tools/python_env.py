"""Step 1 of the set-up: `.venv` with exactly what `uv.lock` says. Does nothing when that is already so.

Runs on whatever python3 the machine has (3.8 or later, standard library only), before anything is installed. Everything it fetches
goes into `.cache` and `.venv` inside the project folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
VENV = PROJECT / ".venv"
CACHE = PROJECT / ".cache"
#: Holds the sum of the files the environment was made from.
STAMP = VENV / ".made-from"
#: All that users need, and what Airflow needs for PostgreSQL.
EXTRAS = ("--extra", "all", "--extra", "postgres")
#: Free disk space to start with, in bytes: the environment takes 2.2 GB and what was unpacked and built on the way, until pruned, as much again.
ROOM_NEEDED = 5 * 10**9


class MissingError(Exception):
    """Something the set-up cannot get by itself; the message says what to do."""


def wanted_sum() -> str:
    """One sum over everything the environment depends on."""
    digest = hashlib.sha256(" ".join(EXTRAS).encode())
    for name in ("pyproject.toml", "uv.lock"):
        digest.update((PROJECT / name).read_bytes())
    return digest.hexdigest()


def is_ready() -> bool:
    """Whether the environment is there and was made from the present lock file."""
    return (VENV / "bin" / "python").exists() and STAMP.exists() and STAMP.read_text() == wanted_sum()


def check_room(folder: Path = PROJECT, needed: int = ROOM_NEEDED) -> None:
    """Refuse to start a download that cannot end well."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise MissingError(
            f"{folder} has {free / 1e9:.1f} GB of free disk space, the Python environment needs {needed / 1e9:.1f} GB while it is made. "
            "Free some and run the command again."
        )


def find_uv() -> Path:
    """The uv on the PATH, the one fetched earlier, or one fetched now through pip."""
    on_path = shutil.which("uv")
    if on_path:
        return Path(on_path)
    home = CACHE / "uv-tool"
    uv = home / "bin" / "uv"
    if not uv.exists():
        say("fetching uv (it installs the Python environment)")
        shutil.rmtree(home, ignore_errors=True)
        # A Python without the venv module still has pip's own way to install into a folder.
        in_venv = run([sys.executable, "-m", "venv", home]) and run(
            [home / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"]
        )
        if not in_venv and not run([sys.executable, "-m", "pip", "install", "--quiet", "--target", home, "uv"]):
            raise MissingError(
                "uv is not installed and could not be fetched through pip (see above). Check the network; if python3 has neither venv nor "
                "pip, install them (Debian: apt-get install python3-venv); or install uv yourself and run the command again."
            )
    return uv


def make_environment(uv: Path) -> None:
    """`uv sync` to the letter of the lock file, then drop what of the downloads nothing needs any more.

    The downloads themselves stay: they are the same files on the disk as those in the environment, and a test installs from them."""
    say("making the Python environment (once; about a minute and 4 GB)")
    environ = {
        **os.environ,
        "UV_CACHE_DIR": str(CACHE / "uv"),
        "UV_PYTHON_INSTALL_DIR": str(CACHE / "python"),
        "UV_PROJECT_ENVIRONMENT": str(VENV),
    }
    environ.pop("VIRTUAL_ENV", None)
    # Compiled now, since a task is a process of its own: where Python may not write bytecode, each would compile its imports anew.
    if not run([uv, "sync", "--frozen", *EXTRAS, "--compile-bytecode", "--project", PROJECT], environ):
        raise MissingError(
            "the Python environment could not be made (see above). Without a network it only works when .cache/uv holds every package; "
            "Python 3.11 or 3.12 is needed, uv fetches one if the machine has none."
        )
    run([uv, "cache", "prune", "--quiet"], environ)
    STAMP.write_text(wanted_sum())


def run(command: list, environ: dict | None = None) -> bool:  # type: ignore[type-arg]
    """Run a command, its output to standard error; whether it succeeded."""
    return subprocess.run([str(part) for part in command], env=environ, stdout=sys.stderr, check=False).returncode == 0


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Make the environment if need be; 1 with a message if that is impossible."""
    if is_ready():
        return 0
    try:
        check_room()
        make_environment(find_uv())
    except MissingError as error:
        say(f"stopped: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
