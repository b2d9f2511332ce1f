"""Sources that hear of busy and idle channels in the acknowledgements of their own tuples, as machine code. Read `consistent_grouping` first.

Waiting is told by tickets: who has none does not wait, the smallest one is the head of the queue. A pair is made as soon as both queues have
somebody, so before each signal at least one of them is empty and a signal makes at most one pair.
"""

from __future__ import annotations

from typing import NamedTuple

from rebalance.compiled import compiled
from rebalance.planning.model import Indices, Ints


class Views(NamedTuple):
    """What each source knows; rows are by source."""

    #: Channel of each virtual worker.
    owner: Ints
    #: Virtual workers of each channel.
    held: Indices
    #: Slot whose signal each channel has been heard of last.
    heard: Indices
    #: Ticket of each channel that waits to have fewer virtual workers, or more; 0 = does not wait.
    giving: Indices
    taking: Indices
    #: Tickets given out.
    tickets: Indices


@compiled
def route_and_hear(workers: Ints, first: int, signals: Indices, slot: int, views: Views) -> Ints:
    """The channel of each tuple, given its virtual worker. `signals` are those of the last slot's end: below 0 fewer, above 0 more."""
    sources = len(views.tickets)
    out = workers.copy()
    for i in range(len(workers)):
        source = (first + i) % sources
        channel = views.owner[source, workers[i]]
        out[i] = channel
        if views.heard[source, channel] != slot:
            views.heard[source, channel] = slot
            hear(source, channel, signals[channel], views)
    return out


@compiled
def hear(source: int, channel: int, signal: int, views: Views) -> None:
    """Queue up, or leave, and pair off in the view of one source."""
    giving, taking, owner, held = views.giving[source], views.taking[source], views.owner[source], views.held[source]
    views.tickets[source] += 1
    queue(giving, channel, signal < 0 and held[channel] > 1, views.tickets[source])
    queue(taking, channel, signal > 0, views.tickets[source])
    giver, taker = head(giving), head(taking)
    if giver >= 0 and taker >= 0:
        giving[giver] = taking[taker] = 0
        moving = len(owner) - 1
        while owner[moving] != giver:
            moving -= 1
        owner[moving] = taker
        held[giver] -= 1
        held[taker] += 1


@compiled
def queue(tickets: Indices, channel: int, asks: bool, ticket: int) -> None:
    """Who asks keeps the ticket it has or takes this one; who does not hands it in."""
    if not asks:
        tickets[channel] = 0
    elif tickets[channel] == 0:
        tickets[channel] = ticket


@compiled
def head(tickets: Indices) -> int:
    """Who has waited longest; -1 if nobody waits."""
    found = -1
    for channel in range(len(tickets)):
        if tickets[channel] > 0 and (found < 0 or tickets[channel] < tickets[found]):
            found = channel
    return found
