"""A generated city, for people without map data: deterministic by seed, of almost any size.

Ring roads and radials are laid out first, blocks between them follow the grids of their districts.
A river cuts through and is crossed only where arterials meet it; a motorway with two carriageways
and ramps passes above all that. Streets are chosen from the Delaunay triangulation of the
junctions, so that none crosses another. All steps are (nearly) linear in the number of edges.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import Delaunay, cKDTree

from superarm.arrays import Mask, Matrix, Pairs, Rows, Vector
from superarm.navigation.network import RoadNetwork
from superarm.navigation.terrain import River, Terrain

FEWEST, MOST = 500, 1_000_000

_STRAIGHT = 0.35  # sine of the angle to the grid
_FORBIDDEN = 0.04  # share of turns that are not allowed, where there are others
_EDGES_PER_JUNCTION = 2.8
_ATTEMPTS = 6
_BLOCK_M = 105.0
_PROJECTION = "+proj=aeqd +lat_0=0 +lon_0=0 +datum=WGS84 +units=m +type=crs"  # a place in the sea


def generate_city(seed: int = 0, n_edges: int = 4000) -> RoadNetwork:
    """Return a city with about this many directed edges (within five per cent).

    Args:
        seed: the same seed and size give the same city.
        n_edges: from 500 to 1,000,000.
    """
    if not FEWEST <= n_edges <= MOST:
        msg = f"n_edges must be from {FEWEST} to {MOST:,}, got {n_edges:,}"
        raise ValueError(msg)
    spread = 1.12
    wanted = n_edges / _EDGES_PER_JUNCTION
    for _ in range(_ATTEMPTS):  # the radius that gives the right number of junctions
        rng = np.random.default_rng([seed, n_edges])
        plan = _Plan.drawn(int(wanted), spread, rng)
        junctions, axes, arterials = _junctions(plan, rng)
        surplus = junctions.shape[0] / wanted
        if abs(surplus - 1) < 0.02:  # noqa: PLR2004 - well within five per cent
            break
        spread /= np.sqrt(surplus)
    streets = _streets(plan, junctions, axes, arterials, rng)
    roads = _directed(plan, streets, _motorway(plan, streets), n_edges, rng)
    return _network(plan, roads, f"city {seed} of {n_edges:,} edges", rng)


@dataclass(frozen=True, eq=False)
class _Plan:
    """The ideal city: radius, rings, radials, river and hills."""

    radius_m: float
    ring_radii_m: Vector
    radial_angles: Vector
    bend: Vector
    river: River
    terrain: Terrain
    n_junctions: int

    @classmethod
    def drawn(cls, n_junctions: int, spread: float, rng: np.random.Generator) -> "_Plan":
        radius = _BLOCK_M * spread * np.sqrt(n_junctions / np.pi)
        n_rings = int(np.clip(round(radius / 1300.0), 2, 12))
        n_radials = int(np.clip(round(4 + radius / 1100.0), 5, 26))
        rings = radius * np.linspace(0.2, 0.88, n_rings) * rng.uniform(0.96, 1.04, n_rings)
        angles = 2 * np.pi * (np.arange(n_radials) + rng.uniform(-0.22, 0.22, n_radials))
        river = River.drawn(radius, rng)
        return cls(
            radius_m=float(radius),
            ring_radii_m=rings,
            radial_angles=angles / n_radials + rng.uniform(0, 2 * np.pi),
            bend=np.concatenate([rng.uniform(-0.06, 0.06, 3), rng.uniform(0, 2 * np.pi, 3)]),
            river=river,
            terrain=Terrain.drawn(radius, river, rng),
            n_junctions=n_junctions,
        )

    def block_m(self, xy: Matrix) -> Vector:
        """Return the size of blocks at a place."""
        out = np.clip(np.hypot(xy[:, 0], xy[:, 1]) / self.radius_m, 0, 1.2)
        return _BLOCK_M * (0.78 + 0.75 * out)

    def place(self, radius: Vector, angle: Vector) -> Matrix:
        """Return a point of the ideal polar plan, bent so that rings are no perfect circles."""
        turns = angle[:, None] * np.arange(1, 4) + self.bend[3:]
        stretched = radius * (1 + np.sin(turns) @ self.bend[:3])
        return np.column_stack([stretched * np.cos(angle), stretched * np.sin(angle)])


def _junctions(plan: _Plan, rng: np.random.Generator) -> tuple[Matrix, Vector, list[Rows]]:
    """Return coordinates, the direction of the local grid, and the arterials as chains."""
    main, chains = _arterials(plan)
    local, axes = _district_grids(plan, rng)
    gap, _ = cKDTree(main).query(local)
    clear = gap > 0.62 * plan.block_m(local)
    xy = np.concatenate([main, local[clear]])
    axes = np.concatenate([np.full(main.shape[0], np.nan), axes[clear]])
    dry = np.abs(plan.river.signed_distance(xy)) > plan.river.half_width_m + 12.0
    place = np.where(dry, np.cumsum(dry) - 1, -1)
    return xy[dry], axes[dry], [place[chain][place[chain] >= 0] for chain in chains]


def _arterials(plan: _Plan) -> tuple[Matrix, list[Rows]]:
    """Return points along rings and radials; where they cross, one point serves both."""
    rings, angles = plan.ring_radii_m, np.sort(np.mod(plan.radial_angles, 2 * np.pi))
    ends = np.concatenate([angles, [angles[0] + 2 * np.pi]])
    points: list[Matrix] = []
    chains: list[Rows] = []
    crossings = np.empty((rings.size, angles.size), dtype=np.intp)
    size = 0
    for number, radius in enumerate(rings):
        first = size
        for spoke, (begin, end) in enumerate(pairwise(ends)):
            block = plan.block_m(np.array([[radius, 0.0]]))[0]
            count = max(2, round((end - begin) * radius / block))
            angle = np.linspace(begin, end, count, endpoint=False)
            points.append(plan.place(np.full(count, radius), angle))
            crossings[number, spoke] = size
            size += count
        chains.append(np.append(np.arange(first, size), first))
    stops = np.append(rings, plan.radius_m)
    for spoke, angle in enumerate(angles):
        chain: list[int] = []
        for number, (begin, end) in enumerate(pairwise(stops)):
            block = plan.block_m(np.array([[(begin + end) / 2, 0.0]]))[0]
            stations = np.linspace(
                begin, end, max(2, round((end - begin) / block)), endpoint=False
            )[1:]
            points.append(plan.place(stations, np.full(stations.size, angle)))
            chain += [int(crossings[number, spoke]), *range(size, size + stations.size)]
            size += stations.size
        chains.append(np.array(chain, dtype=np.intp))
    return np.concatenate(points), chains


def _district_grids(plan: _Plan, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Return junctions of local streets, a turned grid per district, and its direction."""
    n_districts = max(5, round(plan.n_junctions / 260))
    angle, out = rng.uniform(0, 2 * np.pi, n_districts), np.sqrt(rng.random(n_districts))
    seeds = plan.radius_m * out[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    tree = cKDTree(seeds)
    reach = 2.2 * plan.radius_m / np.sqrt(n_districts) + 2 * _BLOCK_M
    turn = rng.uniform(0, np.pi / 2, n_districts)
    blocks = plan.block_m(seeds) * rng.uniform(0.9, 1.1, n_districts)
    found = []
    for seed, angle, block in zip(seeds, turn, blocks, strict=True):
        half = int(reach / block) + 1
        steps = block * np.arange(-half, half + 1)
        grid = np.stack(np.meshgrid(steps, 0.8 * steps), axis=-1).reshape(-1, 2)
        grid += rng.normal(0, 0.06 * block, grid.shape)
        rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        found.append(seed + grid @ rotation)
    owner = np.repeat(np.arange(n_districts), [part.shape[0] for part in found])
    xy = np.concatenate(found)
    _, nearest = tree.query(xy)
    around = np.arctan2(xy[:, 1], xy[:, 0])[:, None] * np.array([2, 3, 7]) + plan.bend[3:]
    edge = plan.radius_m * (1 + np.sin(around) @ np.array([0.05, 0.05, 0.03]))
    keep = (nearest == owner) & (np.hypot(xy[:, 0], xy[:, 1]) < edge)
    return xy[keep], turn[owner[keep]]


@dataclass(frozen=True, eq=False)
class _Streets:
    """Junctions with streets between them, not yet directed.

    Attributes:
        essential: streets that keep the city in one piece, or are arterials.
        along: streets in the main direction of their district, which run on.
        spokes: the outermost junction of every radial.
    """

    xy: Matrix
    ends: Pairs
    speed_kmh: Vector
    lanes: Rows
    essential: Mask
    along: Mask
    spokes: Rows


def _streets(
    plan: _Plan, xy: Matrix, axes: Vector, chains: list[Rows], rng: np.random.Generator
) -> _Streets:
    """Join the arterials' junctions, and choose local streets among the Delaunay edges."""
    n_rings = plan.ring_radii_m.size
    main = np.concatenate([np.column_stack([chain[:-1], chain[1:]]) for chain in chains])
    radial = np.repeat(np.arange(len(chains)) >= n_rings, [chain.size - 1 for chain in chains])
    bridge = 2 * plan.river.half_width_m + 400.0
    fine = np.hypot(*(xy[main[:, 0]] - xy[main[:, 1]]).T) < bridge
    main, radial = np.sort(main[fine], axis=1), radial[fine]
    on_main = np.zeros(xy.shape[0], dtype=bool)
    on_main[main] = True

    a, b = (local := _gabriel_edges(xy)).T
    length = np.hypot(*(xy[a] - xy[b]).T)
    north = plan.river.signed_distance(xy) > 0
    short = length < 2.1 * plan.block_m((xy[a] + xy[b]) / 2)
    local = local[short & (north[a] == north[b]) & ~(on_main[a] & on_main[b])]

    ends = np.concatenate([main, local])
    whole = _largest_part(xy.shape[0], ends)
    place = np.full(xy.shape[0], -1, dtype=np.intp)
    place[whole] = np.arange(whole.size)
    inside = place[ends[:, 0]] >= 0
    is_main = (np.arange(ends.shape[0]) < main.shape[0])[inside]
    fast = np.concatenate([radial, np.zeros(local.shape[0], dtype=bool)])[inside]
    ends = place[ends[inside]]
    # a random spanning tree that prefers arterials, then streets along the grids of their
    # districts, keeps the city in one piece
    gap = xy[whole][ends[:, 1]] - xy[whole][ends[:, 0]]
    along = _along(gap, axes[whole][ends])
    weight = np.where(is_main, 1e-3, np.where(along, 0.15, 1.0)) * rng.uniform(0.5, 1.5, along.size)
    weight *= np.hypot(gap[:, 0], gap[:, 1])
    spokes = place[np.array([chain[-1] for chain in chains[n_rings:]])]
    return _Streets(
        xy=xy[whole],
        ends=ends,
        speed_kmh=np.where(fast, 70.0, np.where(is_main, 50.0, 30.0)),
        lanes=np.where(is_main, 2, 1),
        essential=is_main | _in_spanning_tree(whole.size, ends, weight),
        along=along,
        spokes=spokes[spokes >= 0],
    )


def _along(gap: Matrix, axes: Matrix) -> Mask:
    """Say which streets follow the grid direction at both ends."""
    angle = np.arctan2(gap[:, 1], gap[:, 0])[:, None]
    straight = np.abs(np.sin(angle - axes)) < _STRAIGHT
    return straight[:, 0] & straight[:, 1]


def _gabriel_edges(xy: Matrix) -> Pairs:
    """Return the Delaunay edges with no other junction in the circle above them."""
    corners = Delaunay(xy).simplices.astype(np.intp)
    pairs, sharp = [], []
    for opposite in range(3):
        i, j = corners[:, (opposite + 1) % 3], corners[:, (opposite + 2) % 3]
        to_i, to_j = xy[i] - xy[corners[:, opposite]], xy[j] - xy[corners[:, opposite]]
        pairs.append(np.minimum(i, j) * xy.shape[0] + np.maximum(i, j))
        sharp.append(np.einsum("ij,ij->i", to_i, to_j) >= 0)
    every, which = np.unique(np.concatenate(pairs), return_inverse=True)
    blunt = np.bincount(which, weights=~np.concatenate(sharp), minlength=every.size)
    chosen = every[blunt == 0]
    return np.column_stack([chosen // xy.shape[0], chosen % xy.shape[0]])


def _largest_part(n_nodes: int, ends: Pairs) -> Rows:
    graph = csr_array((np.ones(ends.shape[0]), (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    _, label = connected_components(graph, directed=False)
    return np.flatnonzero(label == np.bincount(label).argmax())


def _in_spanning_tree(n_nodes: int, ends: Pairs, weight: Vector) -> Mask:
    rank = np.empty(weight.size)
    rank[np.argsort(weight, kind="stable")] = np.arange(1, weight.size + 1)
    graph = csr_array((rank, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    chosen = np.zeros(weight.size + 1, dtype=bool)
    chosen[minimum_spanning_tree(graph).data.astype(np.intp)] = True
    return chosen[rank.astype(np.intp)]


@dataclass(frozen=True, eq=False)
class _Roads:
    """Directed roads between junctions; `twin` is the other direction of a road, or -1."""

    ids: list[str]
    xy: Matrix
    ends: Pairs
    speed_kmh: Vector
    lanes: Rows
    twin: Rows


def _motorway(plan: _Plan, streets: _Streets) -> _Roads:
    """Return two carriageways around a part of the city, with ramps to the radials they pass."""
    spokes = streets.spokes
    angle = np.mod(np.arctan2(*streets.xy[spokes].T[::-1]), 2 * np.pi)
    order = np.argsort(np.mod(angle - plan.bend[4], 2 * np.pi))
    served = spokes[order][: max(3, round(0.62 * spokes.size))]
    angles = np.unwrap(angle[order][: served.size])
    between = [
        max(1, round((end - begin) * plan.radius_m / 500.0)) for begin, end in pairwise(angles)
    ]
    stops = np.concatenate([[0], np.cumsum(between)])
    path = np.interp(np.arange(stops[-1] + 1), stops, angles)
    outer = plan.place(np.full(path.size, 1.07 * plan.radius_m), path)
    inward = outer / np.hypot(*outer.T)[:, None]
    base, count = streets.xy.shape[0], path.size
    steps = np.arange(count - 1)
    there = base + np.column_stack([steps, steps + 1])
    back = base + count + np.column_stack([steps[::-1] + 1, steps[::-1]])
    ramps = np.concatenate(
        [
            np.column_stack([ends, starts])
            for offset in (base, base + count)
            for ends, starts in ((offset + stops, served), (served, offset + stops))
        ]
    )
    n_ramps = ramps.shape[0]
    twin = np.full(2 * (count - 1) + n_ramps, -1, dtype=np.intp)
    return _Roads(
        ids=[f"m{i}" for i in range(2 * (count - 1))] + [f"r{i}" for i in range(n_ramps)],
        xy=np.concatenate([outer + 16.0 * inward, outer - 16.0 * inward]),
        ends=np.concatenate([there, back, ramps]),
        speed_kmh=np.repeat([110.0, 60.0], [2 * (count - 1), n_ramps]),
        lanes=np.repeat([3, 1], [2 * (count - 1), n_ramps]),
        twin=twin,
    )


def _directed(
    plan: _Plan, streets: _Streets, motorway: _Roads, n_edges: int, rng: np.random.Generator
) -> _Roads:
    """Choose as many local streets as wanted, some of them one-way, and give all a direction."""
    extra = np.flatnonzero(~streets.essential)
    extra = extra[np.argsort(rng.random(extra.size) - 0.6 * streets.along[extra])]
    middle = streets.xy[streets.ends[extra]].mean(axis=1)
    share = 0.75 - 0.45 * np.clip(np.hypot(*middle.T) / plan.radius_m, 0, 1)
    single = rng.random(extra.size) < share
    wanted = n_edges - 2 * int(streets.essential.sum()) - motorway.ends.shape[0]
    count = int(np.searchsorted(np.cumsum(np.where(single, 1, 2)), wanted))
    chosen = np.concatenate([np.flatnonzero(streets.essential), extra[:count]])
    one_way = np.zeros(chosen.size, dtype=bool)
    one_way[chosen.size - count :] = single[:count]
    order = np.argsort(chosen)
    chosen, one_way = chosen[order], one_way[order]
    ends = streets.ends[chosen]
    flipped = one_way & (rng.random(chosen.size) < 0.5)  # noqa: PLR2004 - either way
    ends = np.where(flipped[:, None], ends[:, ::-1], ends)
    back = np.flatnonzero(~one_way)
    twin = np.full(chosen.size + back.size, -1, dtype=np.intp)
    twin[back] = chosen.size + np.arange(back.size)
    twin[chosen.size :] = back
    return _Roads(
        ids=[f"s{i}" for i in range(chosen.size)] + [f"-s{i}" for i in back] + motorway.ids,
        xy=np.concatenate([streets.xy, motorway.xy]),
        ends=np.concatenate([ends, ends[back][:, ::-1], motorway.ends]),
        speed_kmh=np.concatenate(
            [streets.speed_kmh[chosen], streets.speed_kmh[chosen[back]], motorway.speed_kmh]
        ),
        lanes=np.concatenate([streets.lanes[chosen], streets.lanes[chosen[back]], motorway.lanes]),
        twin=np.concatenate([twin, motorway.twin]),
    )


def _network(plan: _Plan, roads: _Roads, name: str, rng: np.random.Generator) -> RoadNetwork:
    used, ends = np.unique(roads.ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    xy = roads.xy[used]
    points = xy[ends]  # straight roads: two points each
    gap = points[:, 1] - points[:, 0]
    heights = plan.terrain.heights(xy)
    n = ends.shape[0]
    return RoadNetwork(
        name=name,
        edge_ids=np.array(roads.ids),
        from_junction=ends[:, 0].copy(),
        to_junction=ends[:, 1].copy(),
        length_m=np.hypot(gap[:, 0], gap[:, 1]),
        speed_ms=roads.speed_kmh / 3.6,
        lanes=roads.lanes,
        junction_ids=np.array([f"j{i}" for i in range(used.size)]),
        junction_xy_m=xy,
        junction_height_m=plan.terrain.range_m * (heights - heights.min()) / np.ptp(heights),
        shape_xy_m=points.reshape(-1, 2),
        shape_start=np.arange(0, 2 * n + 1, 2, dtype=np.intp),
        turns=_turns(ends, roads.twin, used.size, rng),
        projection=_PROJECTION,
    )


def _turns(ends: Pairs, twin: Rows, n_junctions: int, rng: np.random.Generator) -> Pairs:
    """Return all turns but U-turns (dead ends excepted) and a few forbidden ones."""
    leaving = np.argsort(ends[:, 0], kind="stable")
    counts = np.bincount(ends[:, 0], minlength=n_junctions)
    starts = np.concatenate([[0], np.cumsum(counts)])
    choices = counts[ends[:, 1]]
    first = np.repeat(np.arange(ends.shape[0]), choices)
    within = np.arange(first.size) - np.repeat(np.cumsum(choices) - choices, choices)
    second = leaving[starts[ends[first, 1]] + within]
    back = second == twin[first]
    others = choices - np.bincount(first, weights=back, minlength=ends.shape[0]).astype(np.intp)
    forbidden = (others[first] >= 3) & (rng.random(first.size) < _FORBIDDEN)  # noqa: PLR2004
    legal = np.where(back, others[first] == 0, ~forbidden)
    return np.column_stack([first[legal], second[legal]])
