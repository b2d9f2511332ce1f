"""Builds the documentation as a site, strictly: a link that leads nowhere fails the build. Asks nothing of other hosts.

    python tools/make_site.py

The pages of docs/ and those that lie beside the code (README.md, dags/README.md and others) are gathered in .local/site, their links set
to where the pages lie there, and zensical makes HTML of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[1]
SITE = PROJECT / ".local" / "site"
#: A link or picture that names a file: its mark, words, target and anchor.
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


class SiteError(Exception):
    """The pages cannot be made into a site; the message says where."""


def places(project: Path) -> dict[str, str]:
    """Where every page of the project lies in the site: those of docs/ as they are, others under project/."""
    docs = {file.relative_to(project).as_posix() for file in (project / "docs").rglob("*") if file.is_file()}
    found = {name: name.removeprefix("docs/") for name in sorted(docs)}
    # Tools leave folders with a README of their own, whose names begin with a dot.
    for file in sorted([*project.glob("[A-Z]*.md"), *project.glob("[!.]*/README.md")]):
        name = file.relative_to(project)
        page = name.stem if name.parent == Path() else name.parent.name
        found[name.as_posix()] = f"project/{page.lower()}.md"
    return found


def rewritten(text: str, page: str, where: dict[str, str]) -> str:
    """A page with its links as the site has them; a link to a file that is no page of the site becomes plain text."""
    here = PurePosixPath(where[page]).parent

    def link(found: re.Match[str]) -> str:
        mark, words, target, anchor = found.groups(default="")
        path = os.path.normpath(PurePosixPath(page).parent / target)
        if path in where:
            return f"{mark}[{words}]({os.path.relpath(where[path], here)}{anchor})"
        # What is not there stays as it is, for the build to find.
        return words if (PROJECT / path).is_file() else found[0]

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def gather(project: Path, site: Path) -> None:
    """All pages and pictures, and the site's settings, in a folder of their own."""
    shutil.rmtree(site, ignore_errors=True)
    where = places(project)
    for name, place in where.items():
        target = site / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            target.write_text(rewritten((project / name).read_text(), name, where))
        else:
            shutil.copyfile(project / name, target)
    shutil.copyfile(project / "zensical.toml", site / "zensical.toml")


def build(site: Path) -> Path:
    """The site's first page; SiteError with all that is wrong if there is anything."""
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    told = subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", told.stdout + told.stderr)
    if told.returncode or "Warning:" in said:
        raise SiteError(said)
    return site / "html" / "index.html"


def main() -> int:
    """Build the site; 1 with what is wrong if it cannot be built."""
    try:
        gather(PROJECT, SITE)
        print(f"open {build(SITE)}")
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
