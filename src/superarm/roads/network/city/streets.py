"""The streets of a generated city: which junctions are joined, which way, and the motorway."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

from superarm.arrays import Mask, Matrix, Pairs, Rows, Vector
from superarm.oracles.trees import least_spanning_tree
from superarm.roads.network.city.plan import CityPlan

_STRAIGHT = 0.35  # sine of the angle to the grid


@dataclass(frozen=True, eq=False)
class Streets:
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


def lay_streets(
    plan: CityPlan, xy: Matrix, axes: Vector, chains: list[Rows], rng: np.random.Generator
) -> Streets:
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
    return Streets(
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
    chosen = np.zeros(weight.size + 1, dtype=bool)
    chosen[least_spanning_tree(n_nodes, ends, rank).astype(np.intp)] = True
    return chosen[rank.astype(np.intp)]


@dataclass(frozen=True, eq=False)
class Roads:
    """Directed roads between junctions; `twin` is the other direction of a road, or -1."""

    ids: list[str]
    xy: Matrix
    ends: Pairs
    speed_kmh: Vector
    lanes: Rows
    twin: Rows


def lay_motorway(plan: CityPlan, streets: Streets) -> Roads:
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
    return Roads(
        ids=[f"m{i}" for i in range(2 * (count - 1))] + [f"r{i}" for i in range(n_ramps)],
        xy=np.concatenate([outer + 16.0 * inward, outer - 16.0 * inward]),
        ends=np.concatenate([there, back, ramps]),
        speed_kmh=np.repeat([110.0, 60.0], [2 * (count - 1), n_ramps]),
        lanes=np.repeat([3, 1], [2 * (count - 1), n_ramps]),
        twin=twin,
    )


def give_directions(
    plan: CityPlan, streets: Streets, motorway: Roads, n_edges: int, rng: np.random.Generator
) -> Roads:
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
    return Roads(
        ids=[f"s{i}" for i in range(chosen.size)] + [f"-s{i}" for i in back] + motorway.ids,
        xy=np.concatenate([streets.xy, motorway.xy]),
        ends=np.concatenate([ends, ends[back][:, ::-1], motorway.ends]),
        speed_kmh=np.concatenate(
            [streets.speed_kmh[chosen], streets.speed_kmh[chosen[back]], motorway.speed_kmh]
        ),
        lanes=np.concatenate([streets.lanes[chosen], streets.lanes[chosen[back]], motorway.lanes]),
        twin=np.concatenate([twin, motorway.twin]),
    )
