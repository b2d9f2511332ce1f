"""A real PostgreSQL of a test's own, set up as Docker's image does it: a user, a password, a database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster import free_port
from tests.support.container import in_container

_PATIENCE = 60.0


def programs() -> Path | None:
    """Where the server's programs are; None if there are none."""
    on_path = shutil.which("initdb")
    # Debian keeps them off the PATH, a folder for each version.
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].resolve().parent if found else None


@contextmanager
def postgres_server(user: str, password: str, database: str) -> Iterator[int]:
    """The port of a server with an empty database, for as long as it is needed."""
    there = programs()
    assert there
    # It refuses to run as root, so another user has to be able to reach its folder.
    unprivileged = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="rebalance-postgres-"))
    try:
        if unprivileged:
            shutil.chown(folder, unprivileged)
        data, port = folder / "data", free_port()
        (folder / "password").write_text(password)
        made = [there / "initdb", "-D", data, "-U", user, "--no-sync", "--auth=scram-sha-256", "--pwfile=password"]
        _run(made, unprivileged, folder)
        _run(
            [there / "postgres", "--single", "-D", data, "template1"],
            unprivileged,
            folder,
            f'CREATE DATABASE "{database}";\n',
        )
        quick = [word for name in ("fsync", "synchronous_commit", "full_page_writes") for word in ("-c", f"{name}=off")]
        served = [there / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, *quick]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                in_container([*map(str, served)], unprivileged),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_until_ready(there, port, process, folder / "log")
            yield port
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str | None:
    """Who runs the server if we are root."""
    if os.getuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _run(command: list[str | Path], user: str | None, folder: Path, said: str = "") -> None:
    done = subprocess.run(command, cwd=folder, input=said, text=True, capture_output=True, user=user, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _wait_until_ready(there: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    ready = [str(there / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False).returncode:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
