"""The built-in suite: what must hold for an interval's key statistics to be planned on.

All of it holds for an interval without rows, or without any key, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from rebalance.partition import SLOTS
from rebalance.quality.facts import Facts
from rebalance.storage.schemas import SCHEMAS

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.expectations import Expectation

    from rebalance.pipeline.sections import Quality

#: Types of the columns as they are checked; the key's own type is that of the function.
_TYPES = {
    column.name: "int64" if pa.types.is_integer(column.type) else "float64"
    for column in SCHEMAS["key_stats"]
    if column.name not in ("interval_id", "key")
}


def as_checked(stats: pa.Table) -> pd.DataFrame:
    """Statistics as they are checked: of narrower integers, Great Expectations asks Python about each row by itself."""
    wide = [field.with_type(pa.int64()) if pa.types.is_int32(field.type) else field for field in stats.schema]
    return stats.cast(pa.schema(wide)).to_pandas()


def key_stats_suite(facts: Facts, knobs: Quality) -> list[Expectation]:
    """The suite for one interval; every expectation stops, but that on the volume if it is only to warn."""
    from great_expectations import expectations as gxe

    # An infinite cost would be all of the load.
    last = facts.channels - 1
    most = {"slot": SLOTS - 1, "channel": last, "hash_channel": last, "cost": sys.float_info.max}
    suite: list[Expectation] = [
        gxe.ExpectTableColumnsToMatchSet(column_set=SCHEMAS["key_stats"].names),
        gxe.ExpectColumnValuesToBeOfType(column="key", type_="int64" if facts.key_type == "long" else "str"),
        *(gxe.ExpectColumnValuesToBeOfType(column=column, type_=kind) for column, kind in _TYPES.items()),
        *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in ("key", *_TYPES)),
        gxe.ExpectColumnValuesToBeUnique(column="key"),
        *(
            gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0, max_value=most.get(column))
            for column in _TYPES
        ),
        *(
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A=f"held_{unit}", column_B=f"added_{unit}", or_equal=True
            )
            for unit in ("rows", "bytes")
        ),
        gxe.ExpectColumnSumToBeBetween(
            column="tuples",
            min_value=facts.rows - facts.nameless,
            max_value=facts.rows - facts.nameless,
            notes=f"the interval has {facts.rows:,} rows{_besides(facts)}",
        ),
    ]
    return [*suite, *_volume(facts, knobs)]


def _besides(facts: Facts) -> str:
    return f", {facts.nameless:,} of them of keys without a name" if facts.nameless else ""


def _now_besides(facts: Facts) -> str:
    return f"; {facts.nameless:,} rows now are of keys without a name" if facts.nameless else ""


def _volume(facts: Facts, knobs: Quality) -> list[Expectation]:
    from great_expectations import expectations as gxe
    from great_expectations.expectations.metadata_types import FailureSeverity

    if facts.usual is None:
        return []
    # Without rows there are no loads that a plan could get wrong: worth a word, not a stop.
    stops = knobs.volume == "stop" and facts.rows > 0
    return [
        gxe.ExpectColumnSumToBeBetween(
            column="tuples",
            min_value=facts.usual.rows / knobs.volume_factor - facts.nameless,
            max_value=facts.usual.rows * knobs.volume_factor - facts.nameless,
            notes=f"usual are {facts.usual.rows:,.0f} rows, the median {facts.usual.of}{_now_besides(facts)}",
            severity=FailureSeverity.CRITICAL if stops else FailureSeverity.WARNING,
        )
    ]
