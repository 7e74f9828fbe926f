r"""A prior covariance as a matrix root that is never formed: :math:`K = L L^T`.

Of a kernel that is a sum, every summand gives columns of its own to L:

==============================================  ==================================================
summand                                         columns
==============================================  ==================================================
`Linear`, `Constant`                            its features, exactly
`PerArm`                                        a diagonal, exactly
`GraphMatern` of integer smoothness             one per node, by sparse solves, exactly
anything else, such as a stationary kernel      as many features as leave less than a given share of
                                                its variance; what is left stays, on the diagonal
one that so many features do not span           all features that are allowed, and what they leave
                                                by tiles of the kernel, exactly (`TiledRest`)
==============================================  ==================================================

A summand may be multiplied by constants and by `Linear` kernels of one feature, which scale its
rows; `Beside` has summands of its own for each kind of arms. The last row but one of the table is
the only approximation: variances are right, correlations of what is left are dropped, and
`PriorRoot.unexplained` says how much that is. Tiles take n x n evaluations of a kernel per step and
are refused beyond `MOST_TILED` arms unless they are asked for: ``rest`` chooses between them and
the diagonal.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, frozen
from superarm.beliefs.ensemble.features import precision_of, spanned
from superarm.beliefs.ensemble.products import add_rows, write_rows
from superarm.beliefs.ensemble.solving import dots_of
from superarm.beliefs.ensemble.tiled import MOST_TILED, TiledRest
from superarm.beliefs.rows import tiles
from superarm.errors import CapacityError
from superarm.kernels import Beside, Constant, GraphMatern, Kernel, Linear, OnFeatures, PerArm
from superarm.kernels.base import Product, Sum
from superarm.threads import in_blocks, workers

MOST_FEATURES = 1_500
"""The most features of one summand, for more arms than that."""

_FEW_COLUMNS = 16  # for more, features are made double, a tile at a time

Rest = Literal["auto", "diagonal", "tiles"]
"""Where what features leave of a kernel stays: on the diagonal if it is little enough and by tiles
otherwise, on the diagonal or nowhere, or by tiles in any case."""


@dataclass(frozen=True, eq=False)
class GraphRoot:
    """The columns of a kernel on a graph.

    Attributes:
        kernel: of the graph.
        nodes: where the arms are, shape (n,).
        scales: what their rows are multiplied by, shape (n,).
    """

    kernel: GraphMatern
    nodes: Rows
    scales: Vector

    @property
    def size(self) -> int:
        """How many columns."""
        return self.kernel.n_nodes

    @cached_property
    def _on_graph(self) -> slice | Rows:
        """Which arms are on the graph, where several arms may stand on one node otherwise."""
        return slice(None) if self.scales.all() else np.flatnonzero(self.scales)

    @cached_property
    def _is_all(self) -> bool:
        """Whether arm i is on node i."""
        same = np.array_equal(self.nodes, np.arange(self.size))
        return same and bool(self.scales.all())

    def times(self, latent: Matrix) -> Matrix:
        """Return the rows of the arms times columns, shape (n, s), in their precision."""
        found: Matrix = self.kernel.root_times(latent)
        if not self._is_all:
            found = found[self.nodes]
        found *= self.scales[:, None].astype(latent.dtype)
        return found

    def transposed(self, values: Matrix) -> Matrix:
        """Return the transposed root times columns, shape (size, s), in their precision."""
        scales = self.scales[:, None].astype(values.dtype)
        if self._is_all:
            return self.kernel.root_transposed_times(scales * values)
        spread, on = np.zeros((self.size, values.shape[1]), values.dtype), self._on_graph
        spread[self.nodes[on]] = scales[on] * values[on]
        return self.kernel.root_transposed_times(spread)


@dataclass(frozen=True, eq=False)
class PriorRoot:
    """L, shape (n, p): features, then what is each arm's own, graphs, and what is kept by tiles.

    A latent of the last kind stands in two blocks of n numbers, a and R a.

    Attributes:
        features: shape (n, R).
        own: standard deviations, shape (n,).
        graphs: parts that are smooth on a graph.
        unexplained: the largest share of a summand's variance whose correlations are dropped.
        rests: what features leave of kernels that they do not span.
        asked: which share might stay unexplained, by how many features, and where.
    """

    features: Matrix
    own: Vector
    graphs: tuple[GraphRoot, ...]
    unexplained: float
    rests: tuple[TiledRest, ...] = ()
    asked: tuple[float, int, Rest] = (1e-3, MOST_FEATURES, "auto")

    @classmethod
    def of_kernel(
        cls, arms: Arms, kernel: Kernel, share: float, most: int, rest: Rest = "auto"
    ) -> "PriorRoot":
        """Take a kernel apart.

        Args:
            arms: with distinct ids.
            kernel: their prior covariance.
            share: of the variance of a summand that may stay unexplained.
            most: features of one summand.
            rest: where what they leave stays.
        """
        if rest not in get_args(Rest):
            msg = f"rest must be one of {get_args(Rest)}, got {rest!r}"
            raise ValueError(msg)
        features, variance, graphs, worst = [], np.zeros(len(arms)), [], 0.0
        rests: list[TiledRest] = []
        tiled = rest == "tiles" or (rest == "auto" and len(arms) <= MOST_TILED)
        for part, rows, scales in _summands_of(kernel, arms):
            mine = arms if rows.size == len(arms) else arms.take(rows)
            if isinstance(part, PerArm):
                variance[rows] += scales**2 * part.variance
            elif isinstance(part, GraphMatern) and part.nu == int(part.nu):
                graphs.append(_graph_root(part, len(arms), rows, mine.ids, scales))
            elif (known := _known_features(part, mine)) is not None:
                features.append((rows, known * scales[:, None]))
            else:
                found, left, missing = spanned(part, mine, share, most, exactly=tiled)
                features.append((rows, found * scales[:, None].astype(found.dtype)))
                if rest == "tiles" or (tiled and missing > share):
                    rests.append(TiledRest(part, mine, found, rows, scales, len(arms)))
                    continue
                if missing > share:
                    raise _not_spanned(part, found.shape[1], missing, share)
                variance[rows] += scales**2 * left
                worst = max(worst, missing)
        precision = (
            np.float64 if rests else precision_of(arms, sum(f.shape[1] for _, f in features))
        )
        whole = _together(features, arms, precision)
        asked = (share, most, rest)
        return cls(whole, np.sqrt(variance), tuple(graphs), worst, tuple(rests), asked)

    @property
    def n_arms(self) -> int:
        """How many rows."""
        return int(self.own.size)

    @property
    def rank(self) -> int:
        """How many features."""
        return int(self.features.shape[1])

    @property
    def size(self) -> int:
        """How many columns, p."""
        return self._plain + 2 * self.n_arms * len(self.rests)

    @property
    def _plain(self) -> int:
        """How many of them have a root of their own."""
        return self.rank + self.n_arms + sum(graph.size for graph in self.graphs)

    def _rests(self) -> Iterator[tuple[TiledRest, slice, slice]]:
        """Yield what is kept by tiles, and where a and R a stand."""
        begin, n = self._plain, self.n_arms
        for rest in self.rests:
            yield rest, slice(begin, begin + n), slice(begin + n, begin + 2 * n)
            begin += 2 * n

    def times(self, latent: Matrix) -> Matrix:
        """Return L times columns, shape (n, s), in their precision."""
        values = self.features_times(latent[: self.rank])
        own = self.own[:, None].astype(latent.dtype)
        values += own * latent[self.rank : self.rank + self.n_arms]
        begin = self.rank + self.n_arms
        for graph in self.graphs:
            values += graph.times(latent[begin : begin + graph.size])
            begin += graph.size
        for _, _, felt in self._rests():
            values += latent[felt]
        return values

    def features_times(self, latent: Matrix) -> Matrix:
        """Return the features times columns, shape (n, s), in their precision."""
        if self._rough(latent):
            found = self.features @ latent.astype(self.features.dtype)
            return cast("Matrix", found.astype(latent.dtype, copy=False))
        values = np.empty((self.n_arms, latent.shape[1]))
        if latent.shape[1] <= _FEW_COLUMNS:
            columns, cuts = np.ascontiguousarray(latent.T), self._cuts

            def work(part: int, _: int) -> None:
                write_rows(self.features, columns, cuts[part], cuts[part + 1], values)

            in_blocks(len(cuts) - 1, work, (1,))
            return values
        for part in tiles(self.n_arms):
            values[part] = self.features[part].astype(np.float64) @ latent
        return values

    def of_features(self, values: Matrix) -> Matrix:
        """Return the transposed features times columns, shape (R, s), in their precision."""
        if self._rough(values):
            found = self.features.T @ values.astype(self.features.dtype, copy=False)
            return cast("Matrix", found.astype(values.dtype, copy=False))
        if values.shape[1] <= _FEW_COLUMNS:
            cuts = self._cuts
            totals = np.zeros((len(cuts) - 1, values.shape[1], self.rank))

            def work(part: int, _: int) -> None:
                add_rows(self.features, values, cuts[part], cuts[part + 1], totals[part])

            in_blocks(len(totals), work, (1,))
            return cast("Matrix", totals.sum(axis=0).T)
        total = np.zeros((self.rank, values.shape[1]))
        for part in tiles(self.n_arms):
            total += self.features[part].astype(np.float64).T @ values[part]
        return total

    @property
    def _cuts(self) -> list[int]:
        """Where arms are dealt out to threads."""
        many = workers()
        return [self.n_arms * part // many for part in range(many + 1)]

    def _rough(self, columns: Matrix) -> bool:
        """Whether products may be taken in the precision of the features."""
        return columns.dtype == np.float32 or self.features.dtype == np.float64

    def transposed(self, values: Matrix) -> Matrix:
        """Return the transposed L times columns, shape (p, s), in their precision."""
        found = np.empty((self.size, values.shape[1]), values.dtype)
        begin = self.rank + self.n_arms
        found[: self.rank] = self.of_features(values)
        np.multiply(self.own[:, None].astype(values.dtype), values, out=self.own_of(found))
        for graph in self.graphs:
            found[begin : begin + graph.size] = graph.transposed(values)
            begin += graph.size
        for rest, mine, felt in self._rests():
            found[mine], found[felt] = values, rest.times(values)
        return found

    def dots(self, left: Matrix, right: Matrix) -> Vector:
        """Return inner products of columns of latents, shape (s,)."""
        total = dots_of(left[: self._plain], right[: self._plain])
        for _, mine, felt in self._rests():
            total += dots_of(left[mine], right[felt])
        return total

    def products(self, left: Matrix, right: Matrix) -> Matrix:
        """Return inner products of every column with every other, shape (s, s)."""
        total: Matrix = left[: self._plain].T @ right[: self._plain]
        for _, mine, felt in self._rests():
            total += left[mine].T @ right[felt]
        return total

    def with_draws(self, normals: Matrix) -> Matrix:
        """Return latents of prior draws, of standard normal ones; a is not known of these."""
        if not self.rests:
            return normals
        found = normals.copy()
        for rest, mine, felt in self._rests():
            found[felt], found[mine] = rest.drawn(normals[mine]), 0.0
        return found

    def prior_draws(self, seed: int, n_draws: int) -> Matrix:
        """Return the latents of the prior draws that a belief begins with, shape (p, S)."""
        if not self.rests:
            return prior_latent(self, seed, n_draws)
        known = self._drawn
        if (seed, n_draws) not in known:  # which take long
            known.clear()
            known[seed, n_draws] = frozen(self.with_draws(prior_latent(self, seed, n_draws)))
        return known[seed, n_draws]

    @cached_property
    def _drawn(self) -> dict[tuple[int, int], Matrix]:
        return {}

    def probe(self, most: int) -> Matrix:
        """Return some numbers by which another root is told from this one, one row per arm."""
        some = np.linspace(0, self.n_arms - 1, min(most, self.n_arms)).astype(np.intp)
        parts = [self.features[some].astype(np.float64), self.own[some, None]]
        signs = np.where(np.arange(self.n_arms) % 3 == 0, 1.0, -1.0)[:, None]
        parts += [graph.times(np.resize(signs, (graph.size, 1)))[some] for graph in self.graphs]
        for rest in self.rests:
            few = rest.rows[np.linspace(0, rest.rows.size - 1, some.size).astype(np.intp)]
            mine = np.flatnonzero(np.isin(rest.rows, few))
            gram = rest.kernel.gram(rest.arms.take(mine), rest.arms.take(mine))
            spread = np.zeros((some.size, some.size))
            spread[: mine.size, : mine.size] = gram * rest.scales[mine] * rest.scales[mine, None]
            parts.append(spread)
        return np.column_stack(parts)

    def without_rests(self, latent: Matrix) -> Matrix:
        """Return latents without what is kept by tiles."""
        if not self.rests:
            return latent
        found = latent.copy()
        found[self._plain :] = 0.0
        return found

    def own_of(self, latent: Matrix) -> Matrix:
        """Return what of some columns is each arm's own, shape (n, s)."""
        return latent[self.rank : self.rank + self.n_arms]


def prior_latent(root: PriorRoot, seed: int, n_draws: int) -> Matrix:
    """Return the standard normals that prior draws are made of, shape (p, S)."""
    return np.random.default_rng([seed, n_draws]).standard_normal((root.size, n_draws))


def _summands(kernel: Kernel, arms: Arms, scales: Vector) -> Iterator[tuple[Kernel, Vector]]:
    """Yield the summands of a kernel, with what their rows are multiplied by."""
    if isinstance(kernel, Sum):
        yield from _summands(kernel.left, arms, scales)
        yield from _summands(kernel.right, arms, scales)
        return
    if isinstance(kernel, Product):
        for one, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            known = _known_features(one, arms)
            if known is not None and known.shape[1] == 1:
                yield from _summands(other, arms, scales * known[:, 0])
                return
        for one, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            if isinstance(one, Sum):
                yield from _summands(Product(one.left, other), arms, scales)
                yield from _summands(Product(one.right, other), arms, scales)
                return
            if isinstance(one, PerArm):
                yield PerArm(one.variance), scales * np.sqrt(other.diagonal(arms))
                return
    yield kernel, scales


def _summands_of(kernel: Kernel, arms: Arms) -> Iterator[tuple[Kernel, Rows, Vector]]:
    """Yield the summands, the rows that each is about, and what these are multiplied by."""
    kinds: tuple[tuple[Kernel, Rows], ...] = ((kernel, np.arange(len(arms))),)
    if isinstance(kernel, Beside):
        kinds = kernel.parts(arms)
    for one, rows in kinds:
        if rows.size:
            mine = arms if rows.size == len(arms) else arms.take(rows)
            for part, scales in _summands(one, mine, np.ones(rows.size)):
                yield part, rows, scales


def _graph_root(
    kernel: GraphMatern, n_arms: int, rows: Rows, nodes: Rows, scales: Vector
) -> GraphRoot:
    """Return the columns of a graph; arms that are not on it have rows of zeros."""
    if rows.size == n_arms:
        return GraphRoot(kernel, nodes, scales)
    where, many = np.zeros(n_arms, dtype=np.intp), np.zeros(n_arms)
    where[rows], many[rows] = nodes, scales
    return GraphRoot(kernel, where, many)


def _not_spanned(kernel: Kernel, count: int, missing: float, share: float) -> CapacityError:
    return CapacityError(
        f"{count:,} features leave {missing:.2%} of the variance of {type(kernel).__name__} "
        f"unexplained, more than {share:.2%}; raise most_features or unexplained, choose a "
        'smoother kernel, or keep what they leave by rest="tiles", which is exact and slow'
    )


def _together(
    features: list[tuple[Rows, Matrix]], arms: Arms, precision: type[np.floating[Any]]
) -> Matrix:
    """Return all features side by side."""
    rank = sum(part.shape[1] for _, part in features)
    whole = np.zeros((len(arms), rank), precision)
    begin = 0
    for rows, part in features:
        side = slice(begin, begin + part.shape[1])
        if rows.size == len(arms):
            whole[:, side] = part
        else:
            whole[rows, side] = part
        begin = side.stop
    return cast("Matrix", frozen(whole))


def _known_features(kernel: Kernel, arms: Arms) -> Matrix | None:
    """Return features of a kernel of few, shape (n, R), or nothing."""
    features: Matrix
    match kernel:
        case Constant():
            features = np.full((len(arms), 1), np.sqrt(kernel.variance))
        case Linear():
            features = np.sqrt(kernel.variance) * arms.contexts
        case OnFeatures(kernel=Linear() as inner):
            features = np.sqrt(inner.variance) * arms.contexts[:, list(kernel.features)]
        case _:
            return None
    return features
