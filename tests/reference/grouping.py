"""The grouping schemes, tuple by tuple as their papers state them, and a plain event simulation of the queues. Slow, and in the open."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import mmh3

from rebalance.planning.exact import TOLERANCE, clearly_less
from tests.reference.spread import Grouping as Queues

MASK = 2**64 - 1


def mix(key: int, salt: int) -> int:
    """SplitMix64's finaliser over a hash and a salt."""
    x = (key + salt * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def h(key: int, salt: int, bins: int) -> int:
    """H(key + salt)."""
    return ((mix(key, salt) >> 32) * bins) >> 32


@dataclass
class Source:
    """What one source knows."""

    bins: int
    load: list[int] = field(init=False)
    counts: dict[int, int] = field(default_factory=dict)
    sent: int = 0
    d: int = 2
    refresh: int = 100

    def __post_init__(self) -> None:
        self.load = [0] * self.bins

    def send(self, b: int) -> int:
        self.load[b] += 1
        self.sent += 1
        return b

    def bound(self, epsilon: float) -> float:
        return (1.0 + epsilon) * (self.sent + 1) / self.bins


@dataclass
class Case:
    """A stream for the plain schemes: hashes (mixed with the seed) of the tuples' keys, in order."""

    tuples: list[int]
    channels: int
    sources: int
    seed: int
    epsilon: float = 0.01

    def each(self, bins: int | None = None) -> list[tuple[int, int, Source]]:
        """Number, key and source of every tuple."""
        known = [Source(bins or self.channels) for _ in range(self.sources)]
        return [(i, key, known[i % self.sources]) for i, key in enumerate(self.tuples)]


def kg(case: Case) -> list[int]:
    return [h(key, 1, case.channels) for key in case.tuples]


def sg(case: Case) -> list[int]:
    turns = list(range(case.sources))
    out = []
    for i in range(len(case.tuples)):
        source = i % case.sources
        out.append(turns[source] % case.channels)
        turns[source] += 1
    return out


def pkg(case: Case) -> list[int]:
    n = case.channels
    return [
        source.send(min((h(key, 1, n), h(key, 2, n)), key=source.load.__getitem__)) for _, key, source in case.each()
    ]


def potc(case: Case) -> list[int]:
    n, start, out = case.channels, mix(case.seed, 0x7475706C65), []
    for i, _, source in case.each():
        x = mix((start + i) & MASK, 0)
        choices = ((x >> 32) * n) >> 32, ((x % 2**32) * n) >> 32
        out.append(source.send(min(choices, key=source.load.__getitem__)))
    return out


def ch(case: Case, points: int = 1) -> list[int]:
    ring = sorted(
        (mmh3.hash(f"channel-{d}-replica-{r}", 0, signed=False), d, r)
        for d in range(case.channels)
        for r in range(points)
    )
    out = []
    for _, key, source in case.each():
        place = mix(key, 0) >> 32
        clockwise = [d for point, d, _ in ring if point >= place] + [d for point, d, _ in ring if point < place]
        out.append(source.send(next(d for d in clockwise if source.load[d] < source.bound(case.epsilon))))
    return out


def porc_one(key: int, source: Source, epsilon: float) -> int:
    """Algorithm 1."""
    salt = 1
    s = h(key, salt, source.bins)
    while source.load[s] >= source.bound(epsilon):
        salt += 1
        s = h(key, salt, source.bins)
    return source.send(s)


def porc(case: Case) -> list[int]:
    return [porc_one(key, source, case.epsilon) for _, key, source in case.each()]


# Consistent Grouping


@dataclass
class Pairing:
    """Which virtual worker belongs to whom; the queues are those of `spread`, where a channel may give its last one."""

    owner: list[int]
    queues: Queues
    settle: bool

    def signal(self, utilisation: list[float]) -> None:
        for giver, taker in self.queues.slot_ends(utilisation, 0.85, 0.75, self.settle):
            moving = max(v for v, d in enumerate(self.owner) if d == giver)
            self.owner[moving] = taker


def cg(case: Case, capacity: list[float], alpha: int, slot: int, load: float, settle: bool) -> list[int]:
    """Utilisation of a slot: tuples sent to the channel over tuples it can serve meanwhile."""
    n = case.channels
    pairing = Pairing([d for _ in range(alpha) for d in range(n)], Queues(n, alpha, keep=0), settle)
    mean = sum(capacity) / n
    out: list[int] = []
    for i, key, source in case.each(bins=alpha * n):
        out.append(pairing.owner[porc_one(key, source, case.epsilon)])
        if (i + 1) % slot == 0:
            recent = out[-slot:]
            pairing.signal([recent.count(d) / (capacity[d] / mean * slot / (load * n)) for d in range(n)])
    return out


@dataclass
class View:
    """What one source has heard: the owner of each virtual worker, who waits to have fewer, who to have more."""

    owner: list[int]
    busy: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    heard: set[int] = field(default_factory=set)

    def hear(self, d: int, signal: str) -> None:
        may_give = self.owner.count(d) > 1
        for queue, asks in ((self.busy, signal == "decrease" and may_give), (self.idle, signal == "increase")):
            if asks and d not in queue:
                queue.append(d)
            if not asks and d in queue:
                queue.remove(d)
        if self.busy and self.idle:
            giver, taker = self.busy.pop(0), self.idle.pop(0)
            self.owner[max(v for v, owner in enumerate(self.owner) if owner == giver)] = taker


def cg_piggybacked(case: Case, capacity: list[float], alpha: int, slot: int, load: float) -> list[int]:
    """A source hears what a channel said at the end of the last slot with its first tuple of this slot that goes there."""
    n = case.channels
    views = [View([d for _ in range(alpha) for d in range(n)]) for _ in range(case.sources)]
    mean = sum(capacity) / n
    signals = ["nothing"] * n
    out: list[int] = []
    for i, key, source in case.each(bins=alpha * n):
        view = views[i % case.sources]
        d = view.owner[porc_one(key, source, case.epsilon)]
        out.append(d)
        if d not in view.heard:
            view.heard.add(d)
            view.hear(d, signals[d])
        if (i + 1) % slot == 0:
            recent = out[-slot:]
            u = [recent.count(d) / (capacity[d] / mean * slot / (load * n)) for d in range(n)]
            signals = ["decrease" if x > 0.85 else "increase" if x < 0.75 else "nothing" for x in u]
            for each in views:
                each.heard.clear()
    return out


# D-Choices and W-Choices


def dc(case: Case, theta: float = 0.2, epsilon: float = 1e-4) -> list[int]:
    return head_choices(case, theta, epsilon, all_channels=False)


def wc(case: Case, theta: float = 0.2, epsilon: float = 1e-4) -> list[int]:
    return head_choices(case, theta, epsilon, all_channels=True)


def head_choices(case: Case, theta: float, epsilon: float, *, all_channels: bool) -> list[int]:
    n, out = case.channels, []
    for _, key, source in case.each():
        seen = source.sent + 1
        source.counts[key] = source.counts.get(key, 0) + 1
        if not all_channels and seen >= source.refresh:
            source.d = find_d(source.counts, seen, theta / n, epsilon, n)
            source.refresh = seen + max(seen // 10, 100)
        in_head = source.counts[key] >= theta / n * seen
        d = (n if all_channels else source.d) if in_head else 2
        choices = range(n) if d >= n else [h(key, salt, n) for salt in range(1, d + 1)]
        out.append(source.send(min(choices, key=source.load.__getitem__)))
    return out


def find_d(counts: dict[int, int], seen: int, theta: float, epsilon: float, n: int) -> int:
    """The least d with Σ_{i≤h} p_i + (b_h/n)^d Σ_{head, i>h} p_i + (b_h/n)^2 Σ_tail p_i ≤ b_h (1/n + ε) for all h."""
    p = sorted((c / seen for c in counts.values() if c >= theta * seen), reverse=True)
    if not p:
        return 2
    for d in range(max(2, ceil(p[0] * n * (1 - TOLERANCE))), n):
        if not any(clearly_less(b * (1 / n + epsilon), load) for load, b in prefixes(p, d, n)):
            return d
    return n


def prefixes(p: list[float], d: int, n: int) -> list[tuple[float, float]]:
    out = []
    for h_ in range(1, len(p) + 1):
        b = n - n * ((n - 1) / n) ** float(h_ * d)
        out.append((sum(p[:h_]) + (b / n) ** float(d) * sum(p[h_:]) + (b / n) ** 2.0 * (1 - sum(p)), b))
    return out


# Queues


@dataclass
class Job:
    """A tuple on its way."""

    arrival: Fraction
    channel: int
    left: Fraction = Fraction(1)
    finish: Fraction | None = None


def serve(channel: list[int], phases: list[tuple[int, list[Fraction]]], rate: Fraction) -> list[Job]:
    """First come, first served, from event to event: an arrival, a change of speed, the end of a service. Phases: first tuple, speeds."""
    jobs = [Job(Fraction(i) / rate, d) for i, d in enumerate(channel)]
    changes = [Fraction(start) / rate for start, _ in phases]
    for d in range(len(phases[0][1])):
        now = Fraction(0)
        for job in [job for job in jobs if job.channel == d]:
            now = max(now, job.arrival)
            while job.left > 0:
                phase = max(p for p, change in enumerate(changes) if change <= now)
                speed = phases[phase][1][d]
                end = now + job.left / speed
                if phase + 1 < len(changes) and end > changes[phase + 1]:
                    job.left -= (changes[phase + 1] - now) * speed
                    now = changes[phase + 1]
                else:
                    job.left, now = Fraction(0), end
            job.finish = now
    return jobs
