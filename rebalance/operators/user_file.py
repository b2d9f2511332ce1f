"""A user's Python file, run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from rebalance.errors import ConfigError


def run_file(file: str | Path, knob: str) -> ModuleType:
    """What a Python file defines; `knob` names the setting that names the file."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"{knob} = {str(path)!r} does not exist. Correct the path.")
    spec = importlib.util.spec_from_file_location(f"rebalance_operator_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{knob} = {str(path)!r} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Known under its name while it runs: dataclasses look their module up where annotations are texts. Not longer: functions of a
    # module that is known are sent to Spark's workers by name, and no worker could import this one.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module
