"""`exact.clearly_less` for compiled loops."""

from __future__ import annotations

from rebalance.compiled import compiled
from rebalance.planning import exact

clearly_less = compiled(exact.clearly_less)
