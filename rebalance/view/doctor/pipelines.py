"""Pipeline files: each valid, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rebalance.errors import ConfigError, RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.folder import FOLDER_VARIABLE, pipelines_folder
from rebalance.view.doctor.findings import Finding


def pipeline_files(folder: Path | None = None) -> Sequence[Finding]:
    """Every file of the folder of pipelines; those that cannot be used one by one."""
    folder = (folder or pipelines_folder()).resolve()
    names: dict[str, str] = {}
    broken: list[Finding] = []
    for file in sorted(folder.glob("*.toml")):
        try:
            name = load_pipeline(file).name
        except ConfigError as error:
            broken.append(Finding("pipeline file", "fail", str(error), f"Correct {file}."))
            continue
        if name in names:
            broken.append(
                Finding(
                    "pipeline file",
                    "fail",
                    f"{file.name} has the name {name!r}, which {names[name]} has",
                    f"Give {file} a name of its own.",
                )
            )
        names.setdefault(name, file.name)
    if not names and not broken:
        mend = f"`rebalance init NAME --source PATH` writes one; {FOLDER_VARIABLE} names another folder."
        return [Finding("pipeline files", "warn", f"there are none in {folder}", mend)]
    well = f"{len(names)} valid in {folder}: {', '.join(sorted(names)[:8])}{' …' if len(names) > 8 else ''}"
    return [*([Finding("pipeline files", "ok", well)] if names else []), *broken]


def operator(pipeline: Pipeline) -> Sequence[Finding]:
    """The pipeline's operator; a team's own file is read for it, as every step does."""
    label = pipeline.operator.label
    try:
        made = pipeline.make_operator()
    except RebalanceError:
        raise
    except Exception as error:
        # A team's own file may do anything.
        return [
            Finding(
                "operator",
                "fail",
                f"{label}: {type(error).__name__}: {error}",
                "Correct the file: every step reads it.",
            )
        ]
    merging = "its states merge" if made.mergeable else "its states do not merge"
    return [Finding("operator", "ok", f"{label}: {merging}")]
