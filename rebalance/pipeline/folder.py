"""Where pipeline files are looked for by name. Light: the shell asks with every press of Tab."""

from __future__ import annotations

import os
from pathlib import Path

#: Environment variable with the folder of pipeline files.
FOLDER_VARIABLE = "REBALANCE_PIPELINES"


def pipelines_folder() -> Path:
    """The folder that the environment names, else one of the usual ones where we are."""
    named = os.environ.get(FOLDER_VARIABLE)
    usual = [Path("dags/pipelines"), Path("pipelines")]
    return Path(named) if named else next((folder for folder in usual if folder.is_dir()), Path())


def pipeline_names() -> list[str]:
    """The pipelines there."""
    return sorted(found.stem for found in pipelines_folder().glob("*.toml"))
