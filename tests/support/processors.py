"""Other processors, imitated: numpy picks its loops, numba its instructions, OpenBLAS its kernels and the C library its functions by what
the processor can do. Each can be told to do as if it could do less, so one machine stands for many. It takes a process for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core import _multiarray_umath as numpy_core

from tests.support.budget import VARIABLE, is_long

PROJECT = Path(__file__).resolve().parents[2]
#: What numpy may use on this machine beyond what every machine has, the most common first: X86_V3 is AVX2 and FMA, X86_V4 AVX-512.
FEATURES = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__[name]]
#: What an old processor means to the others.
OLD = {
    "NUMBA_CPU_NAME": "generic",
    "OPENBLAS_CORETYPE": "Prescott",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
}
OLDEST = "an old processor"
NO_MACHINE_CODE = "no machine code"
PROCESSORS: dict[str, dict[str, str]] = {
    OLDEST: {"NPY_DISABLE_CPU_FEATURES": " ".join(FEATURES), **OLD},
    **{
        f"without {name} and later": {
            "NPY_DISABLE_CPU_FEATURES": " ".join(FEATURES[rank:]),
            "OPENBLAS_CORETYPE": "Haswell",
        }
        for rank, name in enumerate(FEATURES)
        if rank
    },
    NO_MACHINE_CODE: {"NUMBA_DISABLE_JIT": "1"},
}
EVERY_PROCESSOR = pytest.mark.parametrize("processor", PROCESSORS)


def run(arguments: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process of its own: what it may use of the processor is settled when it starts."""
    budget = "default" if is_long() else "brief"
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**os.environ, VARIABLE: budget, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
