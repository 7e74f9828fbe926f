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
==============================================  ==================================================

A summand may be multiplied by constants and by `Linear` kernels of one feature, which scale its
rows. The last row alone is an approximation: variances are right, correlations of what is left are
dropped, and `PriorRoot.unexplained` says how much that is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.rows import tiles
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter
from superarm.kernels import Constant, GraphMatern, Kernel, Linear, OnFeatures, PerArm
from superarm.kernels.base import Product, Sum

MOST_FEATURES = 1_500
"""The most features of one summand, for more arms than that."""

_FIRST_SAMPLE = 4_000
_ENOUGH = 1e-13  # share of the variance below which nothing is left to explain


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

    def times(self, latent: Matrix) -> Matrix:
        """Return the rows of the arms times columns, shape (n, s)."""
        found: Matrix = self.kernel.root_times(latent)[self.nodes]
        found *= self.scales[:, None]
        return found

    def transposed(self, values: Matrix) -> Matrix:
        """Return the transposed root times columns, shape (size, s)."""
        spread = np.zeros((self.size, values.shape[1]))
        spread[self.nodes] = self.scales[:, None] * values
        return self.kernel.root_transposed_times(spread)


@dataclass(frozen=True, eq=False)
class PriorRoot:
    """L, shape (n, p): features, then what is each arm's own, then graphs.

    Attributes:
        features: shape (n, R).
        own: standard deviations, shape (n,).
        graphs: parts that are smooth on a graph.
        unexplained: the largest share of a summand's variance whose correlations are dropped.
    """

    features: Matrix
    own: Vector
    graphs: tuple[GraphRoot, ...]
    unexplained: float

    @classmethod
    def of_kernel(cls, arms: Arms, kernel: Kernel, share: float, most: int) -> "PriorRoot":
        """Take a kernel apart.

        Args:
            arms: with distinct ids.
            kernel: their prior covariance.
            share: of the variance of a summand that may stay unexplained.
            most: features of one summand.
        """
        features, variance, graphs, worst = [], np.zeros(len(arms)), [], 0.0
        for part, scales in _summands(kernel, arms, np.ones(len(arms))):
            if isinstance(part, PerArm):
                variance += scales**2 * part.variance
            elif isinstance(part, GraphMatern) and part.nu == int(part.nu):
                graphs.append(GraphRoot(part, arms.ids, scales))
            elif (known := _known_features(part, arms)) is not None:
                features.append(scales[:, None] * known)
            else:
                found, left, missing = _spanned(part, arms, share, most)
                features.append(scales[:, None] * found)
                variance += scales**2 * left
                worst = max(worst, missing)
        together = np.concatenate(features, axis=1) if features else np.empty((len(arms), 0))
        return cls(np.ascontiguousarray(together), np.sqrt(variance), tuple(graphs), worst)

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
        return self.rank + self.n_arms + sum(graph.size for graph in self.graphs)

    def times(self, latent: Matrix) -> Matrix:
        """Return L times columns, shape (n, s)."""
        values: Matrix = self.features @ latent[: self.rank]
        values += self.rest_times(latent[self.rank :])
        return values

    def rest_times(self, latent: Matrix) -> Matrix:
        """Return the columns of L behind the features, times columns, shape (n, s)."""
        values: Matrix = self.own[:, None] * latent[: self.n_arms]
        for graph, part in self._graph_parts():
            values += graph.times(latent[part])
        return values

    def transposed(self, values: Matrix) -> Matrix:
        """Return the transposed L times columns, shape (p, s)."""
        return np.concatenate([self.features.T @ values, self.rest_transposed(values)])

    def rest_transposed(self, values: Matrix) -> Matrix:
        """Return the same, without features, shape (p - R, s)."""
        parts = [self.own[:, None] * values]
        parts += [graph.transposed(values) for graph in self.graphs]
        return np.concatenate(parts)

    def own_of(self, latent: Matrix) -> Matrix:
        """Return what of some columns is each arm's own, shape (n, s)."""
        return latent[self.rank : self.rank + self.n_arms]

    def _graph_parts(self) -> Iterator[tuple[GraphRoot, slice]]:
        """Yield graphs, with where their columns are behind the features."""
        begin = self.n_arms
        for graph in self.graphs:
            yield graph, slice(begin, begin + graph.size)
            begin += graph.size


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


def _spanned(kernel: Kernel, arms: Arms, share: float, most: int) -> tuple[Matrix, Vector, float]:
    """Return features, what they leave of the variances, and which share of all that is.

    Pivots are chosen among a sample, which grows until they explain the others as well.
    """
    n_arms, variance = len(arms), kernel.diagonal(arms)
    size = min(_FIRST_SAMPLE, n_arms)
    while True:
        sample = np.linspace(0, n_arms - 1, size).astype(np.intp)
        chosen = sample[_pivots(kernel, arms.take(sample), share / 2, most)]
        features = _nystrom(kernel, arms, chosen)
        left = np.maximum(variance - np.einsum("ij,ij->i", features, features), 0.0)
        left[chosen] = 0.0
        missing = float(left.sum() / variance.sum())
        if missing <= share or chosen.size == n_arms:
            return features, left, missing
        if size == n_arms or chosen.size >= most:
            msg = (
                f"{chosen.size:,} features leave {missing:.2%} of the variance of "
                f"{type(kernel).__name__} unexplained, more than {share:.2%}; raise most_features "
                "or unexplained, or choose a smoother kernel"
            )
            raise CapacityError(msg)
        size = min(4 * size, n_arms)


def _pivots(kernel: Kernel, arms: Arms, share: float, most: int) -> Rows:
    """Return arms that explain the others but for a share, each of greatest variance left."""
    variance = kernel.diagonal(arms)
    left, limit = variance.copy(), share * variance.sum()
    most = min(most, len(arms))
    features, chosen = np.empty((most, len(arms))), np.empty(most, dtype=np.intp)
    for number in range(most):
        pivot = int(np.argmax(left))
        if left.sum() <= limit or left[pivot] <= _ENOUGH * variance[pivot]:
            return chosen[:number]
        row = (
            kernel.gram(arms.take([pivot]), arms)[0] - features[:number, pivot] @ features[:number]
        )
        features[number] = row / np.sqrt(left[pivot])
        left = np.maximum(left - features[number] ** 2, 0.0)
        left[pivot], chosen[number] = 0.0, pivot
    return chosen


def _nystrom(kernel: Kernel, arms: Arms, chosen: Rows) -> Matrix:
    """Return the features that some arms span, shape (n, R)."""
    few = arms.take(chosen)
    lower = cholesky_with_jitter(kernel.gram(few, few))
    features = np.empty((len(arms), chosen.size))
    for part in tiles(len(arms)):
        some = arms.take(np.arange(part.start, min(part.stop, len(arms))))
        features[part] = solve_triangular(lower, kernel.gram(few, some), lower=True).T
    return features
