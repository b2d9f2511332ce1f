"""What a table of limited size rules out, without a search. Read `frugal` first."""

from __future__ import annotations

import numpy as np

from rebalance.planners.frugal.task import Task

#: How often the θ that a table allows is halved in.
_HALVINGS = 12


def fewest_routes(task: Task) -> int:
    """No plan for this task has fewer routes.

    A channel that is too full can shed the keys that are away from home for nothing, since they may go back. What is still too
    much are keys at home, each of which gets a route; the fewest of them are the heaviest.
    """
    here = np.flatnonzero(task.start >= 0)
    channel, cost, movable = task.start[here], task.cost[here], task.movable[here]
    at_home = movable & (channel == task.home[here])
    load = np.bincount(channel, weights=cost, minlength=len(task.high)) + task.other_load
    free = np.bincount(channel, weights=cost * (movable & ~at_home), minlength=len(task.high))
    excess = load - task.high - free
    total = task.other_routes
    for d in np.flatnonzero(excess > 0.0):
        heaviest = np.sort(cost[at_home & (channel == d)])[::-1]
        total += min(int(np.searchsorted(np.cumsum(heaviest), excess[d])) + 1, len(heaviest))
    return total


def least_theta(task: Task, low: float, highest: float, max_routes: int) -> float:
    """This θ, or, if the table rules that out, about the least θ up to `highest` that it does not."""
    if fewest_routes(task.at(low)) <= max_routes:
        return low
    high = highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fewest_routes(task.at(middle)) <= max_routes else (middle, high)
    return high
