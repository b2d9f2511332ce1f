"""One warm Spark for tasks that are processes of their own, as Airflow's executors run them.

A process pays ten seconds for a JVM, and twice that until Spark has loaded and compiled what it needs. So a task leaves its JVM
to the next one (`rebalance.spark.warm_jvm`); its Spark context and session it has made for itself, and stops them. One task has the JVM at
a time, another starts a Spark of its own meanwhile. It is never needed: whatever goes wrong, an ordinary Spark is started instead.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rebalance.errors import RebalanceError
from rebalance.spark.environment import use_java
from rebalance.spark.warm_jvm import WarmJvm
from rebalance.stores.places import is_secret

log = logging.getLogger("rebalance")

#: Environment variable with the folder of the JVM's files.
FOLDER_VARIABLE = "REBALANCE_WARM_FOLDER"
#: Settings of a session, which a running JVM takes from anyone.
_OF_A_SESSION = ("spark.sql.", "spark.databricks.", "spark.app.name")
#: Variables that differ from task to task and mean nothing to Spark.
_OF_A_TASK = ("AIRFLOW", "_", "OLDPWD", "PYTEST_", "SHLVL", "TRACE")
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
#: The two names under which py4j keeps itself.
_PY4J_ITSELF = ["j", "GATEWAY_SERVER"]


@dataclass
class _Offer:
    """What a Spark that is started in this process may use, and what it has of it."""

    minutes: float
    jvm: WarmJvm | None = None


_offers: list[_Offer] = []


@contextmanager
def kept_warm(minutes: float) -> Iterator[None]:
    """A Spark started inside takes the JVM that an earlier process has left, and leaves it for so many minutes; 0 = an ordinary one."""
    if minutes <= 0 or _offers:
        yield
        return
    offer, in_order = _Offer(minutes), False
    _offers.append(offer)
    try:
        yield
        in_order = True
    except RebalanceError:
        # Said by us, not by a Spark in trouble.
        in_order = True
        raise
    finally:
        _offers.clear()
        if offer.jvm:
            _leave(offer.jvm, minutes if in_order else 0)


def attach(settings: Mapping[str, str], spark_home: Path) -> bool:
    """Connect PySpark to the warm JVM, if that is asked for and can be had; if not, it starts one of its own."""
    if not _offers or not settings.get("spark.master", "").startswith("local"):
        return False
    jvm = WarmJvm(warm_folder())
    try:
        own = {name: value for name, value in settings.items() if not name.startswith(_OF_A_SESSION)}
        how = jvm.borrow(_made_from(own, spark_home), _command(own, spark_home), _environment)
        _connect(*jvm.address())
    except Exception as error:
        log.info("the warm Spark is not used: %s", error)
        forget_jvm()
        if jvm.record:
            jvm.end()
        jvm.close()
        return False
    log.info("warm Spark: %s", how)
    _offers[0].jvm = jvm
    return True


def warm_folder() -> Path:
    """Where the JVM's files are: of this user, on this machine."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / f"rebalance-warm-{os.getuid()}"


def _command(settings: Mapping[str, str], spark_home: Path) -> list[str]:
    """As PySpark starts its JVM."""
    shown = {name: value for name, value in settings.items() if not is_secret(name)}
    given = [word for name, value in shown.items() for word in ("--conf", f"{name}={value}")]
    asked = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return [str(spark_home / "bin" / "spark-submit"), *given, *asked]


def _environment() -> dict[str, str]:
    environ = dict(os.environ)
    use_java(environ)
    return environ


def _made_from(settings: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Everything that only counts when a JVM is started. Values are hashed: some are secrets."""
    import pyspark

    java = shutil.which("java")
    parts: dict[str, object] = {
        "Spark": (pyspark.__version__, spark_home),
        "Python": (sys.version, sys.executable),
        "the working folder": Path.cwd(),
        "java": java and _stamp(Path(java)),
        **settings,
        **{name: value for name, value in os.environ.items() if not name.startswith(_OF_A_TASK)},
    }
    for jar in filter(None, settings.get("spark.jars", "").split(",")):
        parts[jar] = _stamp(Path(unquote(urlsplit(jar).path)))
    return {name: hashlib.sha256(str(part).encode()).hexdigest() for name, part in parts.items()}


def _stamp(file: Path) -> object:
    return (file.resolve(), file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


def _connect(port: int, secret: str) -> None:
    """PySpark takes a JVM that these variables name. They are gone afterwards, since they also mean that spark-submit has started us."""
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

    os.environ[_PORT], os.environ[_SECRET] = str(port), secret
    try:
        SparkContext._ensure_initialized()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    gateway: Any = SparkContext._gateway
    # Objects of borrowers before, who are gone.
    JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getBindings().keySet().retainAll(_PY4J_ITSELF)


def _leave(jvm: WarmJvm, minutes: float) -> None:
    """Stop this process's own Spark and give the JVM back; with 0 minutes, or where that fails, end it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        if minutes and SparkSession._instantiatedSession:
            SparkSession._instantiatedSession.stop()
            left: Any = SparkContext._jvm
            # Its tables' newest versions, read through a session that is no more.
            left.org.apache.spark.sql.delta.DeltaLog.clearCache()
    except Exception as error:
        log.info("the warm Spark is ended: %s", error)
        minutes = 0
    forget_jvm()
    if said := jvm.output():
        log.warning("Spark said: %s", said[-10_000:])
    if minutes:
        jvm.give_back(60 * minutes)
    else:
        jvm.end()
        jvm.close()


def forget_jvm() -> None:
    """Make PySpark forget the JVM, which this process has no more; the next session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is not None:
        with suppress(Exception):
            gateway.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
