"""The ideal plan of a generated city: rings, radials, districts, and where junctions lie."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.network.city.terrain import River, Terrain

_BLOCK_M = 105.0


@dataclass(frozen=True, eq=False)
class CityPlan:
    """The ideal city: radius, rings, radials, river and hills."""

    radius_m: float
    ring_radii_m: Vector
    radial_angles: Vector
    bend: Vector
    river: River
    terrain: Terrain
    n_junctions: int

    @classmethod
    def drawn(cls, n_junctions: int, spread: float, rng: np.random.Generator) -> "CityPlan":
        """Draw the plan of a city with about so many junctions."""
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


def lay_junctions(plan: CityPlan, rng: np.random.Generator) -> tuple[Matrix, Vector, list[Rows]]:
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


def _arterials(plan: CityPlan) -> tuple[Matrix, list[Rows]]:
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


def _district_grids(plan: CityPlan, rng: np.random.Generator) -> tuple[Matrix, Vector]:
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
