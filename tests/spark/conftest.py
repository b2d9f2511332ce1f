"""Settings of Spark under which many intervals of few rows are quick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
}


@pytest.fixture(scope="module")
def few_rows(spark: SparkSession) -> Iterator[None]:
    """Without generated code, adaptive plans and parallel reading: for a few rows, all of them take longer than the work.

    Files that do not ask for it run all verbs with the product's defaults.
    """
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)
