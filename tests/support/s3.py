"""A real S3 server in a process of its own, and what reaches it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3

#: One request at a time: with threads, moto looks and writes in two steps, and its conditional puts are none. Who is stopped in the middle of a
#: request is hung up on, or everybody else would wait for it.
SERVER = """
import logging
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

WSGIRequestHandler.timeout = 5
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.server_port, flush=True)
server.serve_forever()
"""
BUCKET = "lake"
SECRET = "the-secret-of-the-tests"


@dataclass(frozen=True)
class S3:
    """The server's address."""

    endpoint: str

    @property
    def settings(self) -> dict[str, str]:
        """What a pipeline file says of it."""
        said = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "tests",
            "secret.key": SECRET,
            "connection.ssl.enabled": "false",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in said.items()}

    @property
    def toml(self) -> str:
        """The same as the end of a pipeline file."""
        return "\n".join(["[spark.settings]", *(f'"{name}" = "{value}"' for name, value in self.settings.items())])

    @property
    def options(self) -> dict[str, str]:
        """What polars and other clients are told."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self) -> Any:
        """Amazon's own client."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="tests",
            aws_secret_access_key=SECRET,
        )


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server with one bucket, for as long as it is needed."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = S3(f"http://127.0.0.1:{server.stdout.readline().strip()}")
        found.client().create_bucket(Bucket=BUCKET)
        yield found
    finally:
        server.terminate()
        server.communicate()
