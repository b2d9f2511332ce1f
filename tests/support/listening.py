"""Real servers on this machine that note what they are sent: a webhook, and a StatsD."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Webhook:
    """Notes what is posted to it; answers with `status`."""

    url: str = ""
    status: int = 204
    posted: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A web server of a test's own."""
    noted = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            noted.posted.append({**json.loads(body), "path": self.path, "type": self.headers["Content-Type"]})
            self.send_response(noted.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *what: object) -> None:
            """Nothing on the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    noted.url = f"http://127.0.0.1:{server.server_port}/hook/s3cret-token"
    try:
        yield noted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def statsd() -> Iterator[tuple[int, Any]]:
    """A StatsD's port, and a function that gives all lines that have come by now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.2)

        def lines() -> list[str]:
            found: list[str] = []
            while True:
                try:
                    found += listening.recv(65536).decode().splitlines()
                except TimeoutError:
                    return found

        yield listening.getsockname()[1], lines


#: What a server says: status, headers, body.
Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def answering(answer: Callable[[str, str], Answer]) -> Iterator[str]:
    """A web server that answers a method and a path as it is told; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = answer(self.command, self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, *what: object) -> None:
            """Nothing on the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
