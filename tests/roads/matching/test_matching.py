"""Map matching: a trace of a route gives the route."""

import itertools
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts import require_module, require_networks, require_real
from superarm.arrays import Rows
from superarm.roads.matching import Match, Matcher, Trace, random_routes, wrong_share
from superarm.roads.matching.trial import driven
from superarm.roads.network import RoadNetwork, generate_city, read_osm, read_sumo

seeds = st.integers(0, 10_000)


@lru_cache
def city() -> RoadNetwork:
    return generate_city(2, 1500).largest_component()


def one_route(seed: int) -> Rows:
    return random_routes(city(), 1, np.random.default_rng(seed))[0]


def long_edges(route: Rows, spacing_m: float) -> list[int]:
    """The inner edges that no step can jump over."""
    return [int(edge) for edge in route[1:-1] if city().length_m[edge] > spacing_m]


def check_points(match: Match) -> None:
    for part in match.parts:
        assert (np.diff(part.points) > 0).all()
        assert (np.diff(part.place) >= 0).all()
        same = np.diff(part.place) == 0
        assert (np.diff(part.offset_m)[same] >= -1e-9).all()
        assert part.place[-1] < part.edges.size
        turns = {tuple(pair) for pair in city().turns.tolist()}
        edges = part.edges.tolist()
        assert all(pair in turns for pair in itertools.pairwise(edges))


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([0.2, 0.5, 1.0, 2.0]))
def test_a_noiseless_dense_trace_gives_the_route(seed: int, every_s: float) -> None:
    route = one_route(seed)
    drive = driven(city(), route, every_s)
    match = Matcher(city(), accuracy_m=5.0).match(Trace(drive.points[:, 0], drive.points[:, 1:]))
    check_points(match)
    (part,) = match.parts
    spacing = float(np.hypot(*np.diff(drive.points[:, 1:], axis=0).T).max())
    found = part.edges.tolist()
    assert [edge for edge in found if edge in set(long_edges(route, spacing))] == long_edges(
        route, spacing
    )
    assert set(found) <= set(route.tolist())
    assert part.points.size == len(drive.points)
    assert part.off_m.max() < 2 * spacing + 10


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_standing_still_and_repeating_points_change_nothing(seed: int) -> None:
    drive = driven(city(), one_route(seed), 2.0)
    matcher = Matcher(city(), accuracy_m=5.0)
    plain = matcher.match(Trace(drive.points[:, 0], drive.points[:, 1:]))
    middle = len(drive.points) // 2
    rows = np.concatenate(
        [np.arange(middle), np.full(60, middle), np.arange(middle, len(drive.points))]
    )
    clock = drive.points[rows, 0] + np.concatenate(
        [np.zeros(middle), np.arange(60.0), np.full(len(drive.points) - middle, 60.0)]
    )
    stood = matcher.match(Trace(clock, drive.points[rows, 1:]))
    assert stood.edges.tolist() == plain.edges.tolist()
    assert stood.share == 1.0


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_one_point_out_of_this_world_is_left_out(seed: int) -> None:
    drive = driven(city(), one_route(seed), 2.0)
    matcher = Matcher(city(), accuracy_m=5.0)
    plain = matcher.match(Trace(drive.points[:, 0], drive.points[:, 1:]))
    places = drive.points[:, 1:].copy()
    middle = len(places) // 2
    places[middle] += 5000.0
    match = matcher.match(Trace(drive.points[:, 0], places))
    assert match.edges.tolist() == plain.edges.tolist()
    assert middle not in match.parts[0].points


def test_loops_are_kept() -> None:
    """Round the block and on: edges that are driven twice are found twice."""
    network = city()
    follow: dict[int, list[int]] = {a: [] for a in range(network.n_edges)}
    for a, b in network.turns.tolist():
        if network.from_junction[a] != network.to_junction[b]:
            follow[a].append(b)
    loop = next(
        [a, b, c, d]
        for a in range(network.n_edges)
        for b in follow[a]
        for c in follow[b]
        for d in follow[c]
        if a in follow[d] and network.length_m[[a, b, c, d]].min() > 60 and len({a, b, c, d}) == 4
    )
    route = np.array([*loop, *loop, *loop])
    drive = driven(network, route, 1.0)
    match = Matcher(network, accuracy_m=3.0).match(Trace(drive.points[:, 0], drive.points[:, 1:]))
    assert match.edges.tolist() == route.tolist()


def test_u_turns_where_no_turn_says_so_are_found_if_asked_for() -> None:
    network = city()
    ends = list(zip(network.from_junction.tolist(), network.to_junction.tolist(), strict=True))
    legal = {tuple(pair) for pair in network.turns.tolist()}
    there, back = next(
        (i, ends.index((b, a)))
        for i, (a, b) in enumerate(ends)
        if (b, a) in ends and network.length_m[i] > 150 and (i, ends.index((b, a))) not in legal
    )
    drive = driven(network, np.array([there, back]), 1.0)
    trace = Trace(drive.points[:, 0], drive.points[:, 1:])
    assert Matcher(network, accuracy_m=3.0, u_turns=True).match(trace).edges.tolist() == [
        there,
        back,
    ]


def test_what_cannot_be_matched_says_where_and_why() -> None:
    first, second = driven(city(), one_route(1), 1.0), driven(city(), one_route(2), 1.0)
    assert np.hypot(*(first.points[-1, 1:] - second.points[0, 1:])) > 1000
    later = second.points[:, 0] - second.points[0, 0] + first.points[-1, 0] + 1
    clock = np.concatenate([first.points[:, 0], later])
    places = np.concatenate([first.points[:, 1:], second.points[:, 1:]])
    matcher = Matcher(city(), accuracy_m=5.0)
    match = matcher.match(Trace(clock, places))
    assert len(match.parts) == 2
    assert "cut between points" in match.problems[0]
    nowhere = matcher.match(Trace(np.arange(3.0), np.full((3, 2), 1e6)))
    assert nowhere.parts == ()
    assert "no point is within 30 m of a road" in nowhere.problems[0]
    assert matcher.match(Trace(np.empty(0), np.empty((0, 2)))).problems == (
        "the trace has no points",
    )


@pytest.mark.parametrize(
    ("clock", "places", "told"),
    [
        ([0.0, 1.0], [[0.0, 0.0]], "shape"),
        ([0.0, 1.0], [[0.0, 0.0], [np.nan, 1.0]], "point 1 is not finite"),
        ([1.0, 0.0], [[0.0, 0.0], [0.0, 1.0]], "earlier than the one before"),
        ([np.nan, 0.0], [[0.0, 0.0], [0.0, 1.0]], "time_s"),
    ],
)
def test_bad_traces_are_refused(clock: list[float], places: list[list[float]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Trace(np.array(clock), np.array(places))
    with pytest.raises(ValueError, match="accuracy_m"):
        Matcher(city(), accuracy_m=0.0)


def test_what_one_trace_asks_for_is_bounded() -> None:
    """Points all over the city, far apart in time, want ways from everywhere to everywhere."""
    rng = np.random.default_rng(0)
    size = city().n_edges
    somewhere = [city().shape_of(int(edge))[0] for edge in rng.integers(size, size=60)]
    trace = Trace(np.linspace(0.0, 36_000.0, 60), np.array(somewhere))
    small = Matcher(city(), accuracy_m=10.0, most_entries=3 * size)
    match = small.match(trace)
    trees = small._trees  # noqa: SLF001 - what it remembers
    assert trees is None or trees.edge.size <= 3 * size
    assert match.problems
    drive = driven(city(), one_route(3), 5.0)
    plain = Matcher(city(), accuracy_m=10.0).match(Trace(drive.points[:, 0], drive.points[:, 1:]))
    assert plain.edges.size


def test_what_was_matched_before_changes_nothing() -> None:
    """Remembered ways make matching faster, not different."""
    rng = np.random.default_rng(0)
    drives = [driven(city(), one_route(seed), 5.0).seen(10.0, 0.0, rng) for seed in range(8)]
    used = Matcher(city(), accuracy_m=10.0)
    for _ in range(2):
        for trace in drives:
            fresh = Matcher(city(), accuracy_m=10.0).match(trace)
            assert used.match(trace).edges.tolist() == fresh.edges.tolist()


def test_noise_of_ten_metres_every_five_seconds_costs_half_a_per_cent() -> None:
    rng = np.random.default_rng(0)
    routes = random_routes(city(), 40, rng)
    share, cut = wrong_share(city(), routes, noise_m=10.0, every_s=5.0, rng=rng)
    assert share <= 0.005
    assert cut == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["luxembourg", "monaco", "andorra"])
def test_real_roads(name: str) -> None:
    if name == "andorra":
        require_module("osmium", "osm")
        network = read_osm(require_real() / "andorra" / "andorra.osm.pbf")
    else:
        require_module("sumolib", "sumo")
        network = read_sumo(require_networks() / f"{name}.net.xml.gz")
    rng = np.random.default_rng(0)
    network = network.largest_component()
    routes = random_routes(network, 100, rng)
    share, cut = wrong_share(network, routes, noise_m=10.0, every_s=5.0, rng=rng)
    assert share <= 0.005
    assert cut == 0
