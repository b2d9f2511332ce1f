"""`make ui`: Airflow's pages on the demo's records, for one person at this machine. Ctrl-C stops everything it started."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from rebalance.demo.in_process import HOME, airflow_environment

#: Seconds until Airflow is healthy; it was seen to take a minute on two busy cores.
PATIENCE = 240
#: Seconds for an orderly end, after which what is left is killed.
GRACE = 30
PARTS = ("metadatabase", "scheduler", "dag_processor")


def main() -> int:
    """Start, say where, wait, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="port on 127.0.0.1 (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=HOME, help="Airflow's folder (default: the demo's)")
    given = parser.parse_args()
    if not port_is_free(given.port):
        print(
            f'port {given.port} is taken. Stop what uses it, or choose another: make ui ARGS="--port 8081"',
            file=sys.stderr,
        )
        return 1
    # Every way of asking us to stop is an orderly stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    log = given.home / "standalone.log"
    given.home.mkdir(parents=True, exist_ok=True)
    print(f"starting Airflow (a minute or so; its output goes to {log}) …", flush=True)
    with log.open("w") as output:
        airflow = start(given.home, given.port, output.fileno())
    try:
        wait_until_healthy(airflow, given.port, log)
        print(welcome(given.home, given.port), flush=True)
        airflow.wait()
        print(f"Airflow has ended by itself, see {log}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        stop(airflow)


def start(home: Path, port: int, output: int) -> subprocess.Popen[bytes]:
    """`airflow standalone` in a process group of its own, so that Ctrl-C reaches it through us only."""
    beside_python = str(Path(sys.executable).parent)
    environ = {**os.environ, **airflow_environment(home, port=port)}
    environ["PATH"] = os.pathsep.join((str(without_log_servers(home)), beside_python, os.environ["PATH"]))
    return subprocess.Popen(
        ["airflow", "standalone"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def without_log_servers(home: Path) -> Path:
    """A folder with an `airflow` command that starts no log servers.

    They would listen on every network interface and have no setting to change that. The logs are files on this machine anyway.
    """
    command = home / "bin" / "airflow"
    command.parent.mkdir(exist_ok=True)
    real = Path(sys.executable).with_name("airflow")
    command.write_text(
        f'#!/bin/sh\ncase "$1" in scheduler|triggerer) exec "{real}" "$@" --skip-serve-logs ;; esac\nexec "{real}" "$@"\n'
    )
    command.chmod(0o755)
    return command.parent


def wait_until_healthy(airflow: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until every part says so; a RuntimeError with the end of the log if that does not happen."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if airflow.poll() is not None:
            raise RuntimeError(f"Airflow did not start:\n{log.read_text()[-2000:]}")
        if is_healthy(port):
            return
        time.sleep(1)
    raise RuntimeError(f"Airflow was not healthy after {PATIENCE} s:\n{log.read_text()[-2000:]}")


def is_healthy(port: int) -> bool:
    """Whether the pages answer and the parts behind them are at work."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=5) as answer:
            health = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return False
    return all(health.get(part, {}).get("status") == "healthy" for part in PARTS)


def welcome(home: Path, port: int) -> str:
    """Where to look and how to get in."""
    users = json.loads((home / "simple_auth_manager_passwords.json.generated").read_text())
    (user, password), *_ = users.items()
    return (
        f"\n  Airflow:   http://127.0.0.1:{port}/dags\n  user:      {user}\n  password:  {password}\n\n"
        "  The demo's DAG is rebalance_demo. It is paused: its events end with the demo's last interval.\n  Ctrl-C stops Airflow.\n"
    )


def stop(airflow: subprocess.Popen[bytes]) -> None:
    """End Airflow and everything it started. Its own way is SIGINT; what ignores that is killed with its group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("\nstopping Airflow …", flush=True)
    if airflow.poll() is None:
        airflow.send_signal(signal.SIGINT)
        try:
            airflow.wait(GRACE)
        except subprocess.TimeoutExpired:
            print("some parts take too long and are killed", flush=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not group_ends(airflow.pid, number):
            return
    airflow.wait()


def group_ends(group: int, number: signal.Signals, patience: float = 5.0) -> bool:
    """Signal whatever is left of the group; whether something still is, a moment later."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def port_is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


if __name__ == "__main__":
    sys.exit(main())
