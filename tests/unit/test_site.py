"""The documentation as a site: built strictly, whole, and without a word to other hosts."""

from __future__ import annotations

import importlib
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.markdown import PROJECT


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    """The script that builds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROJECT / "tools"))
        yield importlib.import_module("make_site")


@pytest.fixture(scope="module")
def site(tool: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the documentation as it is."""
    folder = tmp_path_factory.mktemp("site")
    tool.gather(PROJECT, folder)
    tool.build(folder)
    return folder


def leaves(nav: list[dict[str, Any]]) -> list[str]:
    """The pages that a navigation leads to."""
    return [
        page
        for entry in nav
        for inner in entry.values()
        for page in (leaves(inner) if isinstance(inner, list) else [inner])
    ]


def test_the_site_is_built_without_a_broken_link_or_anchor(site: Path) -> None:
    pages = {page.relative_to(site / "docs").with_suffix(".html") for page in (site / "docs").rglob("*.md")}
    assert pages <= {page.relative_to(site / "html") for page in (site / "html").rglob("*.html")}


def test_every_page_has_its_place_in_the_navigation() -> None:
    nav = leaves(tomllib.loads((PROJECT / "zensical.toml").read_text())["project"]["nav"])
    assert len(nav) == len(set(nav))
    docs = {page.relative_to(PROJECT / "docs").as_posix() for page in (PROJECT / "docs").rglob("*.md")}
    assert docs - set(nav) == set(), "Give each of them a line in nav of zensical.toml."


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    fetched = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
    )
    pages = [*(site / "html").rglob("*.html")]
    assert pages
    for page in pages:
        # Where a page lives is no request.
        text = re.sub(r"<link[^>]*rel=\"?canonical[^>]*>", "", page.read_text())
        assert not fetched.search(text), page.name
    for style in (site / "html").rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text()), style.name


@pytest.mark.parametrize(
    ("link", "complaint"), [("nowhere.md", "page does not exist"), ("tables.md#nothing", "anchor does not exist")]
)
def test_a_link_that_leads_nowhere_fails_the_build(
    tool: ModuleType, site: Path, tmp_path: Path, link: str, complaint: str
) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copyfile(site / "zensical.toml", tmp_path / "zensical.toml")
    for page in ("index.md", "tables.md"):
        shutil.copyfile(site / "docs" / "project" / "security.md", tmp_path / "docs" / page)
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\nA [link]({link}).\n")
    with pytest.raises(tool.SiteError, match=complaint):
        tool.build(tmp_path)


def test_links_are_set_to_where_the_pages_lie_in_the_site(tool: ModuleType) -> None:
    where = tool.places(PROJECT)
    text = "[a](docs/design.md#the-rooms), [b](dags/README.md), [LICENSE](LICENSE), [c](https://d.org/e.md), ![f](docs/loads.png)"
    assert tool.rewritten(text, "README.md", where) == (
        "[a](../design.md#the-rooms), [b](dags.md), LICENSE, [c](https://d.org/e.md), ![f](../loads.png)"
    )
    assert tool.rewritten("[a](../dags/README.md)", "docs/design.md", where) == "[a](project/dags.md)"
