"""Traces of GPS points to routes on legal turns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from superarm.arrays import Matrix, Pairs, Rows, Vector, as_vector, frozen, require_positive
from superarm.roads.matching.hmm import Rules, viterbi
from superarm.roads.matching.points import Groups, grouped, placed
from superarm.roads.matching.roads import Roads, roads_of
from superarm.roads.matching.trees import MOST_ENTRIES, Trees, larger, no_trees
from superarm.roads.network.network import RoadNetwork

_FEWEST_ENTRIES = 1_000_000
_U_TURN_SIGMAS = 7.0
_APART_SIGMAS = 2.5
_FARTHEST_M = 10_000.0


@dataclass(frozen=True, eq=False)
class Trace:
    """Points of a GPS logger on the plane of a network.

    Args:
        time_s: seconds since any moment, rising, shape (m,).
        xy_m: places, shape (m, 2).
    """

    time_s: Vector
    xy_m: Matrix

    def __post_init__(self) -> None:
        """Check and keep copies."""
        clock = as_vector("time_s", self.time_s)
        places = np.array(self.xy_m, dtype=np.float64)
        if places.shape != (clock.size, 2):
            msg = f"xy_m must have shape ({clock.size}, 2), got {places.shape}"
            raise ValueError(msg)
        if not np.isfinite(places).all():
            bad = int(np.flatnonzero(~np.isfinite(places).all(axis=1))[0])
            msg = f"point {bad} is not finite; leave such points out"
            raise ValueError(msg)
        if (np.diff(clock) < 0).any():
            bad = int(np.flatnonzero(np.diff(clock) < 0)[0]) + 1
            msg = f"point {bad} is earlier than the one before it; sort the points by time"
            raise ValueError(msg)
        object.__setattr__(self, "time_s", frozen(clock.copy()))
        object.__setattr__(self, "xy_m", frozen(places))

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self.time_s.size)


@dataclass(frozen=True, eq=False)
class Part:
    """A stretch of a trace that was driven without a gap.

    Attributes:
        edges: positions in the network, in driving order, shape (k,).
        points: which points of the trace were matched, shape (p,).
        place: on which of `edges` each of them is, rising, shape (p,).
        offset_m: how far from the start of that edge, along its geometry, shape (p,).
        off_m: how far the point is from there, shape (p,).
    """

    edges: Rows
    points: Rows
    place: Rows
    offset_m: Vector
    off_m: Vector


@dataclass(frozen=True, eq=False)
class Match:
    """What became of a trace.

    Attributes:
        trace: the points.
        parts: stretches in the order driven; one, if nothing is in the way.
        problems: where and why the trace was cut or not matched.
    """

    trace: Trace
    parts: tuple[Part, ...]
    problems: tuple[str, ...] = ()

    @cached_property
    def edges(self) -> Rows:
        """The edges of all parts, one after the other."""
        none = np.empty(0, dtype=np.intp)
        return np.concatenate([none, *(part.edges for part in self.parts)])

    @property
    def share(self) -> float:
        """Which share of the points was matched."""
        return sum(part.points.size for part in self.parts) / max(len(self.trace), 1)


@dataclass(eq=False)
class Matcher:
    """Finds the routes of traces on one network.

    It remembers ways that it has looked for, which makes later traces faster and changes no result;
    use one per thread.

    Args:
        network: the roads.
        accuracy_m: standard deviation of GPS errors in each direction.
        fastest_ms: speed that nobody exceeds; by default twice the highest limit, and 40 m/s at
            least.
        u_turns: whether vehicles turn round at the ends of edges where no turn says so.
        most_entries: how many ways are remembered, of 24 bytes each; a trace that needs more is
            cut.
    """

    network: RoadNetwork
    accuracy_m: float = 10.0
    fastest_ms: float | None = None
    u_turns: bool = False
    most_entries: int = MOST_ENTRIES
    _trees: Trees | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("accuracy_m", self.accuracy_m)
        if self.fastest_ms is not None:
            require_positive("fastest_ms", self.fastest_ms)

    @cached_property
    def _roads(self) -> Roads:
        turns = _with_u_turns(self.network) if self.u_turns else self.network.turns
        return roads_of(self.network, turns, _U_TURN_SIGMAS * self.accuracy_m)

    @cached_property
    def _rules(self) -> Rules:
        sigma = self.accuracy_m
        usual = max(2 * float(self.network.speed_ms.max()), 40.0)
        return Rules(
            accuracy=sigma,
            radius=4 * sigma + 10,
            beta=sigma / 2 + 1,
            beta_share=0.05,
            fastest=self.fastest_ms or usual,
            detour=3.0,
            slack=200.0 + 8 * sigma,
            farthest=_FARTHEST_M,
            patience=5,
        )

    @property
    def geometry_m(self) -> Vector:
        """Lengths of edges along their geometry, in which offsets are counted, shape (n,)."""
        return self._roads.length

    def match(self, trace: Trace) -> Match:
        """Return the route of a trace."""
        if len(trace) == 0:
            return Match(trace, (), ("the trace has no points",))
        x, y = (np.ascontiguousarray(trace.xy_m[:, axis]) for axis in (0, 1))
        groups = grouped(trace.time_s, x, y, _APART_SIGMAS * self.accuracy_m, self._rules.fastest)
        if self._trees is not None and self._trees.used[0] > self.most_entries // 2:
            self._trees = None
        parts, problems, last = [], [], -1
        for found in self._stretches(groups):
            part = self._part(trace, groups, *found)
            if last >= 0:
                problems.append(_cut(trace, last, int(part.points[0])))
            last = int(part.points[-1])
            parts.append(part)
        if not parts:
            radius = self._rules.radius
            problems.append(f"no point is within {radius:.0f} m of a road of {self.network.name}")
        else:
            problems += _ends(trace, parts)
        return Match(trace, tuple(parts), tuple(problems))

    def _stretches(self, groups: Groups) -> Iterator[tuple[Rows, Rows, Vector, Rows, Rows]]:
        """Yield matched groups, edges and offsets, edges between them and where these begin."""
        begin, end, roads = 0, groups.clock.size, self._roads
        while begin < groups.clock.size:
            if self._trees is None:
                least = 2 * self.network.n_edges
                entries = max(min(_FEWEST_ENTRIES, self.most_entries), least)
                self._trees = no_trees(self.network.n_edges, roads.turn_to.size, entries)
            places = groups.clock[:end], groups.x[:end], groups.y[:end]
            stop, room, matched, edges, offsets, ways, starts = viterbi(
                roads, self._trees, self._rules, *places, begin
            )
            if not room and 2 * self._trees.edge.size <= self.most_entries:
                self._trees = larger(self._trees)
                continue
            if not room:  # what one trace may ask for is bounded: go on after this place
                self._trees, end = None, max(stop, begin + 1)
                if end == begin + 1:
                    begin, end = end, groups.clock.size
                continue
            end = groups.clock.size
            if matched.size:
                yield matched, edges, offsets, ways, starts
            begin = max(stop, begin + 1)

    def _part(  # noqa: PLR0913, PLR0917 - what was found
        self,
        trace: Trace,
        groups: Groups,
        matched: Rows,
        edges: Rows,
        offsets: Vector,
        ways: Rows,
        starts: Rows,
    ) -> Part:
        route = np.concatenate([edges[:1], ways])
        where = np.concatenate([starts[1:], [ways.size]]).astype(np.intp)
        anchors = np.where(np.arange(matched.size) == 0, 0, where)
        members = np.flatnonzero(np.isin(groups.of_point, matched))
        which = np.searchsorted(matched, groups.of_point[members])
        x, y = (np.ascontiguousarray(trace.xy_m[members, axis]) for axis in (0, 1))
        place, along, off = placed(self._roads, route, anchors, offsets, which, x, y)
        return Part(frozen(route), frozen(members), frozen(place), frozen(along), frozen(off))


def _with_u_turns(network: RoadNetwork) -> Pairs:
    """Return all turns, and those from edges to their own opposite direction."""
    ends: dict[tuple[int, int], list[int]] = {}
    both_ends = list(zip(network.from_junction.tolist(), network.to_junction.tolist(), strict=True))
    for edge, pair in enumerate(both_ends):
        ends.setdefault(pair, []).append(edge)
    more = [
        (edge, back)
        for edge, (begin, end) in enumerate(both_ends)
        for back in ends.get((end, begin), ())
    ]
    both = np.concatenate([network.turns, np.array(more, dtype=np.intp).reshape(-1, 2)])
    return np.unique(both, axis=0)


def _cut(trace: Trace, last: int, first: int) -> str:
    gap = float(np.hypot(*(trace.xy_m[first] - trace.xy_m[last])))
    seconds = float(trace.time_s[first] - trace.time_s[last])
    return (
        f"cut between points {last} and {first} ({gap:.0f} m and {seconds:.0f} s apart): no way "
        "over legal turns is short enough and fits the points between"
    )


def _ends(trace: Trace, parts: list[Part]) -> list[str]:
    """Say which points before the first and after the last stretch have no road."""
    before, after = int(parts[0].points[0]), len(trace) - 1 - int(parts[-1].points[-1])
    told = ((before, "first"), (after, "last"))
    return [f"the {word} {count} points are not on a road" for count, word in told if count]
