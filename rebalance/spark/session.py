"""The one Spark session of a process.

Starting a session costs about ten seconds, so all tasks that run in one process share it. It is made from three layers, later ones
win: our defaults, what the cluster's `spark-defaults.conf` and `spark-submit` say, and the pipeline file's [spark] section.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rebalance
from rebalance.errors import EnvironmentMissingError, extras_named
from rebalance.pipeline.sections import SparkSection
from rebalance.spark import warm
from rebalance.spark.defaults import brings_delta, joined, spark_defaults
from rebalance.spark.environment import delta_jars, package_jars, use_java
from rebalance.spark.jars import S3_PACKAGES
from rebalance.spark.resources import Watch, has_ended, jvm_is_gone
from rebalance.stores.places import is_remote, is_secret, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rebalance.pipeline.file import Pipeline

#: What Spark hands on to the file systems.
_HADOOP = "spark.hadoop."
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

#: Where Linux says how much memory a container may use, old and new.
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
#: In MiB. Beyond it Java's pointers double in size.
_LARGEST_HEAP = 31 * 1024

#: For every master.
DEFAULTS = {
    "spark.sql.extensions": _DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Intervals are cut in UTC; the machine's own zone must not shift them.
    "spark.sql.session.timeZone": "UTC",
    # Every interval asks the same questions, of its own tables and of Delta's logs: more than the 100 that Spark keeps compiled.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # A row per key comes to the planner, and one per moved row to the check of a migration: whether they fit is the driver's memory alone.
    "spark.driver.maxResultSize": "0",
    "spark.ui.showConsoleProgress": "false",
}
#: For masters in this process, where data are small and every task costs more than it brings.
LOCAL_DEFAULTS = {
    # A cluster's people look at it, and at what Spark warns of: that no worker has accepted a job, for one.
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # Listing files starts this many tasks; the default of 10,000 takes minutes on a local disk.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "5",
    # Delta spreads a table's log over this many tasks, 50 by default, and each of them generates its code anew.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.delta.log.cacheSize": "3",
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile=file://{Path(__file__).with_name('log4j2.properties')}",
}


def spark_session(pipeline: Pipeline | None = None) -> SparkSession:
    """The session of this process, started if there is none yet.

    A session that runs already is kept; settings of the pipeline that can change at run time are put into it, the others are not.
    """
    with extras_named():
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

    asked = _asked(pipeline) if pipeline else {}
    if jvm_is_gone():
        warm.forget_jvm()
    elif has_ended() and SparkSession._instantiatedSession is not None:
        SparkSession._instantiatedSession.stop()
    # Not the "active" session: that may be one that a step has opened for its own settings.
    if SparkContext._active_spark_context is not None and SparkSession._instantiatedSession is not None:
        own = {name: value for name, value in asked.items() if not name.startswith(_HADOOP)}
        session = SparkSession.builder.config(map=dict(own)).getOrCreate()
        _tell_hadoop(session, asked)
    else:
        settings, submitted = _settings(pipeline, asked)
        session = _start(settings, submitted, pipeline.spark.packages if pipeline else ())
        if not settings["spark.master"].startswith("local"):
            limits = pipeline.spark if pipeline else SparkSection()
            Watch(session.sparkContext, settings["spark.master"], 60 * limits.resources_timeout_minutes).start()
    if pipeline:
        for path in (pipeline.tables, pipeline.source.path):
            _require_file_system(session, path)
    return session


def _asked(pipeline: Pipeline) -> dict[str, str]:
    """The pipeline file's settings, and what of its stores only the environment says."""
    own = pipeline.spark.settings
    return {**spark_settings(pipeline.source.path, own), **spark_settings(pipeline.tables, own), **own}


def _tell_hadoop(session: SparkSession, settings: dict[str, str]) -> None:
    """Settings of file systems, to a session that runs already: Spark hands them on only when it starts."""
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()
    for name, value in settings.items():
        if name.startswith(_HADOOP):
            hadoop.set(name.removeprefix(_HADOOP), value)


def _require_file_system(session: SparkSession, path: str) -> None:
    """Refuse to start work on a place that this Spark has no classes for."""
    from py4j.protocol import Py4JJavaError

    scheme = path.partition("://")[0] if is_remote(path) else "file"
    jvm: Any = session.sparkContext._jvm
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop)
    except Py4JJavaError:
        named = (
            ", ".join(f'"{package}"' for package in S3_PACKAGES)
            if scheme == "s3a"
            else "those of docs/object_stores.md"
        )
        raise EnvironmentMissingError(
            f"this Spark cannot reach {scheme}://: it has not the jars for it. Nothing was done. Set [spark] packages = [{named}]; "
            "a Spark that runs in this process already gets no jars, start a new one."
        ) from None


def own_session(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    """A session like this one but for some settings, which reach nothing else."""
    from pyspark.errors import AnalysisException

    own = spark.newSession()
    for name, value in spark.conf.getAll.items():
        # A new session knows what Spark was started with; what was set since then has to be told.
        if own.conf.get(name, None) != value:
            # Of a setting whose class is not loaded yet Spark cannot say whether it may be set. Only those of the start may not.
            with suppress(AnalysisException):
                own.conf.set(name, value)
    for name, value in settings.items():
        own.conf.set(name, value)
    return own


def local_heap() -> str:
    """Memory for a Spark that works in this machine's own process: two fifths of what there is, at least Spark's own 1 GiB.

    Spark's default of 1 GiB spills what would fit ten times over; the rest is for Python workers, the page cache and other tasks.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _CGROUP_LIMITS:
        # A container's own limit, where there is one.
        if limit.is_file() and (text := limit.read_text().strip()).isdigit():
            total = min(total, int(text))
    return f"{max(1024, min(_LARGEST_HEAP, total * 2 // 5 >> 20))}m"


def chosen_master(told: Mapping[str, str], pipeline: Pipeline | None) -> str:
    """Where Spark runs. spark-submit always names a master, if only its default: the file's wins where it has one."""
    master = told.get("spark.master", "local[*]")
    if pipeline and (master == "local[*]" or "master" in pipeline.spark.model_fields_set):
        return pipeline.spark.master
    return master


def _settings(pipeline: Pipeline | None, asked: dict[str, str]) -> tuple[dict[str, str], bool]:
    """The three layers in one, and whether spark-submit has started the JVM already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.find_spark_home import _find_spark_home

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        # Only with the JVM at hand does SparkConf show what spark-submit was told.
        SparkContext._ensure_initialized()
        told = dict(SparkConf().getAll())
    else:
        told = spark_defaults(Path(_find_spark_home()))
    master = chosen_master(told, pipeline)
    local = {"spark.driver.memory": local_heap(), **LOCAL_DEFAULTS} if master.startswith("local") else {}
    named = {"spark.master": master, "spark.app.name": pipeline.dag_id if pipeline else "rebalance"}
    return joined(DEFAULTS, local, told, named, asked), submitted


def _start(settings: dict[str, str], submitted: bool, packages: Sequence[str]) -> SparkSession:
    from pyspark import SparkConf, cloudpickle
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.sql import SparkSession

    # Code of ours goes to the workers with the jobs and not by name: an executor need not have this package.
    cloudpickle.register_pickle_by_value(rebalance)  # type: ignore[no-untyped-call]
    _choose_python(settings)
    spark_home = Path(_find_spark_home())
    jars = [] if brings_delta(settings) else delta_jars(spark_home)
    jars += package_jars(packages, spark_home)
    if jars:
        settings = joined(settings, {"spark.jars": ",".join(map(str, jars))})
        if submitted:
            _extend_class_path(jars)
    if not submitted and not warm.attach(settings, spark_home):
        use_java()
    # PySpark starts its JVM with all settings as arguments, which everybody on the machine can read.
    secrets = {name: value for name, value in settings.items() if is_secret(name)}
    conf = SparkConf(loadDefaults=False).setAll([pair for pair in settings.items() if pair[0] not in secrets])
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    _tell_hadoop(session, secrets)
    if "spark.log.level" not in settings and settings["spark.master"].startswith("local"):
        session.sparkContext.setLogLevel("ERROR")
    return session


def _choose_python(settings: dict[str, str]) -> None:
    """Which Python the workers run. PySpark asks the environment alone; what a cluster or the pipeline file has set reaches it only so."""
    if named := settings.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = named
    else:
        # Not whatever `python3` is: that may be another version, or have no Arrow.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _extend_class_path(jars: list[Path]) -> None:
    """Give a JVM that spark-submit has started jars it was not started with: `spark.jars` alone only reaches the executors."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
