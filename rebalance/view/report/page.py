"""The page of a report, from documents: every section is a function of plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rebalance.documents.words import bytes_in_words, fixed, several
from rebalance.view.report import svg
from rebalance.view.report.brought import Brought
from rebalance.view.report.html import Html, element, table, together

Document = Mapping[str, Any]

#: How many of the fullest channels have a row of their own.
_CHANNELS = 16
#: How many failed checks are listed.
_CHECKS = 100
_STYLE = Path(__file__).with_name("style.css")
#: Nothing may be fetched or run, whatever stands in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MODES = {
    "auto": "Plans are carried out as they are made.",
    "approve": "A plan is carried out once a person has approved it; results do not wait for that.",
    "shadow": "Plans are made and reported, and nothing is moved.",
}
_NAMES = {"hash": "by the hash alone", "reached": "as it was", "planned": "as planned"}
_WORDS = (
    ("interval", "a piece of time, processed as one batch; named after its start in UTC"),
    ("key", "what the work is done per: all events of a key meet in one place"),
    ("channel", "the unit of parallel work: one task of Spark and one part of the state"),
    ("load", "the cost of a channel's keys, as the operator counts it; only ratios matter"),
    ("max/mean", "the load of the fullest channel over the mean: 1.00 is perfectly even, and 2.00 lets the slowest task work twice as long as it had to"),
    ("hash alone", "where keys would be without any plan: what Spark does by itself"),
    ("planned, reached", "what the plan predicted, and what the interval then had"),
    ("θ_max", "how far a channel may be off its fair load before a plan is made"),
    ("plan", "the step to a better placement of keys: apply (carried out), keep (none needed or none better found) or reject (it would break a limit)"),
    ("state", "what is remembered of a key between intervals; it moves when its key does"),
    ("quarantine", "rows that could not be used and were put aside instead"),
    ("late events", "events written after their interval was processed; they are in no result until a rewind"),
)  # fmt: skip
_LIMITS = (
    "Seconds saved are an estimate: it takes a task's seconds to follow its channel's load. Tasks also wait, start up and read state, which does not.",
    "Loads are counted per key before an interval is processed. Keys that are split over channels choose them by a hash, so they meet their shares only approximately.",
    "It compares with the hash of this project, as even as a hash can be, not with any other job.",
    "What was undone by a rewind is not in it, and intervals whose statistics were removed by maintenance have gaps.",
)


def page(about: str, over: Document, newest: Document | None, trouble: Document, written: str) -> Html:
    """The whole file."""
    card, columns = over["card"], over["intervals"]
    title = f"Pipeline {card['name']}"
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("title", title),
        Html(f"<style>{_STYLE.read_text()}</style>"),
    )
    body = [*_head(title, over, written), *_section("What it does", [element("p", about)])]
    if columns["id"]:
        body += _section("What rebalancing has brought", _brought(over))
        body += _section("Loads over time", [_over_time(over)])
    if newest:
        body += _section(f"The channels of the newest interval, {newest['id']}", _channels(newest, over["limit"]))
    if columns["id"]:
        body += _section("Intervals", [_intervals(columns)])
        body += _section("What did not go well", _trouble(trouble))
    body += _section("What the words mean", [element("dl", *_pairs())])
    body += _section("What to bear in mind", [element("ul", *(element("li", limit) for limit in _LIMITS))])
    return Html("<!doctype html>\n" + element("html", head, element("body", *body), lang="en") + "\n")


def about(card: Document, *, length: str, source: str, keys: str) -> str:
    """What a pipeline does, for somebody who has never heard of it."""
    return (
        f"Every {length}, the events of {source} are brought together per {keys}, and {card['operator']} works on each. "
        f"The work is spread over {several(card['channels'], 'channel')}, which run side by side, so the fullest one decides how long an interval takes. "
        f"Before an interval is processed its keys are counted; if a channel is more than {card['theta_max']:.0%} off its fair load, the planner {card['planner']} "
        f"looks for a better placement. {_MODES[card['mode']]}"
    )


def _section(title: str, inside: Sequence[Html]) -> list[Html]:
    return [element("h2", title), *inside]


def _head(title: str, over: Document, written: str) -> Iterator[Html]:
    card, ids = over["card"], over["intervals"]["id"]
    span = f"Intervals {ids[0]} to {ids[-1]}, {len(ids):,} of {over['total']:,}. " if ids else ""
    yield element("h1", title)
    yield element("p", f"{span}Written {written}.", class_="soft")
    states = {"good": "All is well", "attention": "Needs a person", "empty": "Nothing yet"}
    yield element("div", element("b", f"{states[card['health']]}: "), card["why"], class_=f"state {card['health']}")


def _brought(over: Document) -> list[Html]:
    brought, mode = Brought.of(over["intervals"]), over["card"]["mode"]
    figures = [
        (
            f"{fixed(brought.hash) or '?'} → {fixed(brought.reached) or '?'}",
            "load of the fullest channel over the mean, on average",
        ),
        (
            "?" if brought.saved_seconds is None else f"{brought.saved_seconds:,.1f} s",
            "less in the slowest tasks, an estimate",
        ),
        (bytes_in_words(brought.moved_bytes), f"of state moved, of {several(brought.moved_keys, 'key')}"),
    ]
    boxes = element("div", *(element("div", element("b", figure), what) for figure, what in figures), class_="figures")
    return [boxes, element("p", " ".join(brought.sentences(mode)))]


def _legend(what: str, names: Sequence[str], limit: float) -> Html:
    keys = [part for name in names for part in (element("span", class_=f"key {name}"), _NAMES[name])]
    return element("figcaption", what, *keys, f". Dashed: {limit:g}, beyond which a plan is made.")


def _over_time(over: Document) -> Html:
    columns = over["intervals"]
    series = {name: columns[name] for name in _NAMES}
    last = {
        name: next((value for value in reversed(values) if value is not None), None) for name, values in series.items()
    }
    words = "Load of the fullest channel over the mean, per interval. Newest: " + ", ".join(
        f"{_NAMES[name]} {fixed(value)}" for name, value in last.items() if value is not None
    )
    drawn = svg.lines(series, [_clock(name) for name in columns["id"]], over["limit"], words)
    return element("figure", drawn, _legend("Load of the fullest channel over the mean:", list(series), over["limit"]))


def _clock(interval_id: str) -> str:
    """'20260101T0500Z' as '01-01 05:00'."""
    return f"{interval_id[4:6]}-{interval_id[6:8]} {interval_id[9:11]}:{interval_id[11:13]}"


def _channels(newest: Document, limit: float) -> list[Html]:
    channels = newest["channels"]
    series = {name: [_over_fair(channel, name) for channel in channels] for name in ("hash", "reached")}
    words = f"Load of each of {len(channels)} channels over its fair load, by the hash alone and as it was."
    picture = element(
        "figure", svg.bars(series, limit, words), _legend("Load of a channel over its fair load:", list(series), limit)
    )
    fullest = sorted(channels, key=lambda channel: (-(_over_fair(channel, "reached") or 0.0), channel["channel"]))
    rows = [
        (
            channel["channel"],
            fixed(_over_fair(channel, "hash")),
            fixed(_over_fair(channel, "reached")),
            _number(channel["keys"]),
            _number(channel["tuples"]),
            fixed(channel["task_seconds"]),
            bytes_in_words(channel["held_bytes"]) if channel["held_bytes"] is not None else "",
            ", ".join(
                f"{one['key']} ({one['cost'] / channel['fair']:.0%})" for one in channel["heavy"] if channel["fair"]
            ),
        )
        for channel in fullest[:_CHANNELS]
    ]
    head = (
        "channel",
        "hash alone",
        "as it was",
        "keys",
        "events",
        "task seconds",
        "state",
        "heaviest keys, of the fair load",
    )
    more = len(channels) - _CHANNELS
    return [
        picture,
        table(head, rows, numbers=range(7)),
        *(
            [element("p", f"The {_CHANNELS} fullest channels; {more:,} more are not listed.", class_="soft")]
            if more > 0
            else []
        ),
    ]


def _over_fair(channel: Document, name: str) -> float | None:
    load, fair = channel[name], channel["fair"]
    return load / fair if load is not None and fair else None


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _intervals(columns: Document) -> Html:
    """Newest first, as a person looks for them."""
    rows = [
        (
            row["id"],
            f"{row['rows']:,}",
            fixed(row["hash"]),
            fixed(row["before"]),
            fixed(row["planned"]),
            fixed(row["reached"]),
            f"{fixed(row['slowest'])} / {fixed(row['mean'])}" if row["slowest"] is not None else "",
            f"{row['seconds']:.1f}",
            f"{row['moved_keys']:,}",
            bytes_in_words(row["moved_bytes"]),
            element("div", _decision(row), class_="reason"),
        )
        for row in reversed([dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)])
    ]
    head = (
        "interval",
        "events",
        "hash alone",
        "before",
        "planned",
        "reached",
        "slowest / mean task seconds",
        "batch seconds",
        "keys moved",
        "state moved",
        "decision and reason",
    )
    return table(head, rows, numbers=range(1, 10))


def _decision(row: Document) -> str:
    if not row["decision"]:
        return "not planned"
    waits = " (not carried out)" if row["decision"] == "apply" and not row["applied"] else ""
    return f"{row['decision']}{waits} by {row['planner']}: {row['reason']}"


def _trouble(trouble: Document) -> list[Html]:
    """Each kind that there is, and a word for those that there are not."""
    kinds = {
        "checks": (_checks, "no quality check failed"),
        "quarantined": (_quarantined, "no row is in quarantine"),
        "late": (_late, "no event is known to have come late"),
        "skipped": (_skipped, "no interval was left out"),
    }
    found = [part for kind, (show, _) in kinds.items() if trouble[kind] for part in show(trouble[kind])]
    well = ", ".join(words for kind, (_, words) in kinds.items() if not trouble[kind])
    return [*found, *([element("p", f"{well[0].upper()}{well[1:]}.")] if well else [])]


def _checks(checks: Sequence[Document]) -> list[Html]:
    columns = ("interval", "expectation", "column", "severity", "bad_rows", "detail")
    of = f", the newest {_CHECKS} of them below" if len(checks) > _CHECKS else ""
    said = f"{several(len(checks), 'quality check')} failed{of}. After one of severity stop nothing is planned; results come all the same."
    head = ("interval", "check", "column", "severity", "bad rows", "what was seen")
    rows = [[check[name] if check[name] is not None else "" for name in columns] for check in checks[-_CHECKS:]]
    return [element("p", said), table(head, rows, numbers=[4])]


def _quarantined(found: Sequence[Document]) -> list[Html]:
    rows = [(row["interval"], row["reason"], f"{row['rows']:,}") for row in found]
    said = "Rows that could not be used were put aside, in the table quarantine."
    return [element("p", said), table(("interval", "why", "rows"), rows, numbers=[2])]


def _late(found: Sequence[Document]) -> list[Html]:
    rows = [(row["interval"], f"{row['late']:+,}", _number(row["events"])) for row in found]
    said = "Events of processed intervals have changed since; a rewind to the first of them takes them in."
    return [
        element("p", said),
        table(("interval", "more or fewer", "events when it was processed"), rows, numbers=[1, 2]),
    ]


def _skipped(found: Sequence[Document]) -> list[Html]:
    spans = "; ".join(f"from {row['from']} to before {row['to']}" for row in found)
    return [element("p", f"Left out on purpose: {spans}.")]


def _pairs() -> list[Html]:
    return [together((element("dt", word), element("dd", meaning))) for word, meaning in _WORDS]
