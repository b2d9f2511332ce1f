"""Great Expectations' pages as they are served here: without the scripts, styles and pictures they would fetch from other hosts."""

from __future__ import annotations

import re
from html import escape

_FETCHED = re.compile(
    rb"<script\b.*?</script\s*>|<link\b[^>]*>|<img\b[^>]*>|url\(['\"]?http[^)]*\)|\sonclick=\"[^\"]*\"",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = re.compile(rb"<head\b[^>]*>", re.IGNORECASE)
#: In the place of theirs; the classes are theirs.
_STYLE = b"""<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 1.5rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top }
nav ol, .breadcrumb { list-style: none; display: flex; flex-wrap: wrap; gap: .5rem; padding: 0 }
.fa-check-circle::before { content: "passed" }
.fa-times::before, .fa-exclamation-triangle::before { content: "failed" }
.modal, .popover, .navbar-brand, .d-none, button, footer { display: none }
</style>"""


def at_home(page: bytes) -> bytes:
    """The page, which fetches nothing.

    >>> at_home(b'<html><head><link rel="stylesheet" href="https://x"></head><script src="https://x">1</script><p>passed')[-24:]
    b'</style></head><p>passed'
    """
    kept = _FETCHED.sub(b"", page)
    return _HEAD.sub(lambda head: head[0] + _STYLE, kept, count=1)


def missing(dag_id: str) -> bytes:
    """What stands in the place of a page that is not there."""
    said = f"There is no such page in the Data Docs of {escape(dag_id)}. The task check_quality writes them when it checks an interval."
    return at_home(
        f"<!doctype html><html lang='en'><head><title>No such page</title></head><body><p>{said}</p>".encode()
    )
