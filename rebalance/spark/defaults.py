"""What a cluster's own configuration says, and how ours is joined to it: lists are joined, everything else is the cluster's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

#: Settings that are lists: what a later layer says is added to what an earlier one did.
_LISTS = ("spark.sql.extensions", "spark.jars")


def spark_defaults(spark_home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of `spark-defaults.conf`, where Spark's own launcher looks for it."""
    file = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = (re.match(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$", line) for line in file.read_text().splitlines())
    return {found[1]: found[2] for found in lines if found and found[1].startswith("spark.")}


def joined(*layers: Mapping[str, str]) -> dict[str, str]:
    """The layers in one, later ones win; of lists, every layer's entries are kept, once, in the order of the layers."""
    settings: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            if name in _LISTS:
                entries = f"{settings.get(name, '')},{value}".split(",")
                value = ",".join(dict.fromkeys(entry.strip() for entry in entries if entry.strip()))
            settings[name] = value
    return settings


def brings_delta(settings: Mapping[str, str]) -> bool:
    """Whether the settings name Delta's jars themselves."""
    places = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    return any(re.search(r"delta-(spark|core)", settings.get(place, "")) for place in places)
