"""`@compiled`: numba for the few loops that cannot be arrays.

Only modules named `*_kernel` use it and nothing imports those at module level, so that commands which never plan do not pay
for numba's import (about a second). The machine code is cached on disk beside the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code, cached across processes; with NUMBA_DISABLE_JIT the function itself."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        # Machine code wraps integers round without a word, and hashes rely on it.
        return np.errstate(over="ignore")(function)
    return cast(F, njit(cache=True)(function))
