"""What the project promises about itself: its licence and its types."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_the_licence_is_apache_2_and_is_shipped(project: Path) -> None:
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert about["license"] == "Apache-2.0"
    assert about["license-files"] == ["LICENSE"]
    text = (project / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_users_of_the_package_get_its_types(project: Path) -> None:
    build = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "rebalance" in build["packages"]
    assert (project / "rebalance" / "py.typed").is_file()
