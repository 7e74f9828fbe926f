r"""The Matérn kernel of a line graph (appendix B.1), without eigenvectors or n x n matrices.

With :math:`\Delta = B B^T` the incidence Laplacian,

.. math:: K = U \Big(\frac{2\nu}{\kappa^2} I + \Lambda\Big)^{-\nu} U^T = M^{-\nu}, \qquad
          M = \frac{2\nu}{\kappa^2} I + \Delta .

M is sparse. For integer :math:`\nu` a column of K is :math:`\nu` sparse solves, a prior draw half
as many, and the diagonal comes by selected inversion (`superarm.kernels.sparse_ldl`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu

from superarm.arms import Arms
from superarm.arrays import Matrix, Pairs, Rows, Vector, as_pairs, as_vector, require_positive
from superarm.errors import CapacityError
from superarm.kernels.base import Kernel
from superarm.kernels.sparse_ldl import SparseLDL
from superarm.values import changed

Normalise = Literal["mean", "none", "correlation"]

EIGENVECTOR_LIMIT = 6000
"""The most nodes for which a fractional nu is served, by dense eigenvectors."""

_SOLVES_AT_ONCE = 4_000_000
_REMEMBER_BELOW = 20_000  # nodes; columns of larger graphs are not kept
_REMEMBER_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False, init=False)
class GraphMatern(Kernel):
    r"""A Gaussian process on the nodes of a line graph, smooth along its turns; reads arm ids.

    A turn c from segment e1 to e2 has the weight :math:`w_c = \bar\ell / \ell_{e1}`, and
    :math:`B_{e1,c} = -w_c`, :math:`B_{e2,c} = w_c`.

    Args:
        turns: shape (t, 2), pairs of segments; a turn onto itself joins nothing.
        lengths: of all n segments, whose arm ids are 0 to n-1.
        nu: smoothness; an integer for graphs of any size.
        kappa: lengthscale.
        normalise: ``"mean"`` divides K by its mean diagonal, so that products with kernels of
            variance v have mean variance v; ``"correlation"`` makes every variance one;
            ``"none"`` leaves K as it is.
        variance: multiplies K.

    >>> ring = GraphMatern([(0, 1), (1, 2), (2, 0)], lengths=[1.0, 1.0, 1.0])
    >>> ring.diagonal(Arms([0, 1, 2])).round(12).tolist()
    [1.0, 1.0, 1.0]
    """

    turns: Pairs
    lengths: Vector
    nu: float
    kappa: float
    normalise: Normalise
    variance: float

    def __init__(  # noqa: PLR0913 - a graph and its parameters
        self,
        turns: ArrayLike,
        lengths: ArrayLike,
        nu: float = 2,
        kappa: float = 1.0,
        *,
        normalise: Normalise = "mean",
        variance: float = 1.0,
    ) -> None:
        """Check the graph and its parameters."""
        checked = as_vector("lengths", lengths)
        require_positive("lengths", checked)
        require_positive("nu", nu)
        require_positive("kappa", kappa)
        require_positive("variance", variance)
        if normalise not in get_args(Normalise):
            msg = f"normalise must be one of {get_args(Normalise)}, got {normalise!r}"
            raise ValueError(msg)
        if nu != int(nu) and checked.size > EIGENVECTOR_LIMIT:
            msg = (
                f"nu = {nu} needs all eigenvectors of {checked.size} segments; the limit is "
                f"{EIGENVECTOR_LIMIT}, take an integer nu for larger graphs"
            )
            raise CapacityError(msg)
        object.__setattr__(self, "turns", as_pairs("turns", turns, checked.size, checked.size))
        object.__setattr__(self, "lengths", checked)
        object.__setattr__(self, "nu", float(nu))
        object.__setattr__(self, "kappa", float(kappa))
        object.__setattr__(self, "normalise", normalise)
        object.__setattr__(self, "variance", float(variance))

    @property
    def n_nodes(self) -> int:
        """The number of segments."""
        return int(self.lengths.size)

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return covariances, by columns of the smaller side."""
        if len(left) > len(right):
            return self.gram(right, left).T
        few, which = np.unique(self._nodes(left), return_inverse=True)
        many = self._nodes(right)
        values = np.empty((few.size, many.size))
        step = max(1, _SOLVES_AT_ONCE // self.n_nodes)
        for begin in range(0, few.size, step):
            values[begin : begin + step] = self._remembered(few[begin : begin + step])[:, many]
        return values if np.array_equal(which, np.arange(few.size)) else values[which]

    def diagonal(self, arms: Arms) -> Vector:
        """Return the variances."""
        return self._variances[self._nodes(arms)]

    def draw(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return one exact sample, at any size."""
        return self.draw_many(arms, rng)

    def draw_many(self, arms: Arms, rng: np.random.Generator) -> Vector:
        """Return one exact sample, at any size."""
        noise = rng.standard_normal(self.n_nodes)
        return (self.scales * self._root_times(noise))[self._nodes(arms)]

    def parameters(self) -> dict[str, float]:
        """Return variance and lengthscale."""
        return {"variance": self.variance, "kappa": self.kappa}

    def replaced(self, values: Mapping[str, float]) -> "GraphMatern":
        """Return the kernel of the same graph with another variance and lengthscale."""
        variance, kappa = values["variance"], values["kappa"]
        if kappa != self.kappa:
            return GraphMatern(
                self.turns,
                self.lengths,
                self.nu,
                kappa,
                normalise=self.normalise,
                variance=variance,
            )
        other = changed(self, variance=variance)
        for known in ("_factor", "_eigen", "raw_variances", "precision"):
            if known in self.__dict__:  # they do not depend on the variance
                other.__dict__[known] = self.__dict__[known]
        return other

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        r"""Return what variance and lengthscale do.

        .. math::
            \frac{\partial M^{-\nu}}{\partial \log\kappa} = \frac{4 \nu^2}{\kappa^2} M^{-\nu-1}

        before normalisation, which changes along with it.
        """
        nodes = self._nodes(arms)
        few, which = np.unique(nodes, return_inverse=True)
        weights = _added_up(weights, which, few.size)
        now = self._remembered(few)[:, few]
        rate = 4 * self.nu**2 / self.kappa**2
        moved = self._power_columns(few, self.nu + 1)[:, few] * rate
        moved *= self.scales[few]
        moved *= self.scales[few][:, None]
        if self.normalise != "none":
            change = rate * self._power_diagonal(self.nu + 1) * self.scales**2  # of variances
            if self.normalise == "mean":
                moved -= now * (change.mean() / self.variance)
            else:
                share = change[few] / self.variance
                moved -= now * (share[:, None] + share) / 2
        total = float((weights * now).sum())
        return np.array([total, float((weights * moved).sum())])

    def scale_parameters(self) -> tuple[str, ...]:
        """The variance multiplies everything."""
        return ("variance",)

    def columns(self, nodes: Rows) -> Matrix:
        """Return the columns of K at some nodes, as rows, shape (len(nodes), n)."""
        found = self._power_columns(nodes, self.nu)
        found *= self.scales
        found *= self.scales[nodes][:, None]
        return found

    def _power_columns(self, nodes: Rows, power: float) -> Matrix:
        """Return columns of a negative power of M, as rows."""
        if self._by_solves:
            return self._factor.inverse_columns(nodes, int(power))
        values, vectors = self._eigen
        found: Matrix = (vectors[nodes] * values**-power) @ vectors.T
        return found

    def _power_diagonal(self, power: float) -> Vector:
        """Return the diagonal of a negative power of M."""
        if self._by_solves:
            return self._factor.inverse_diagonal(int(power))
        values, vectors = self._eigen
        found: Vector = vectors**2 @ values**-power
        return found

    def _remembered(self, nodes: Rows) -> Matrix:
        """Return columns as rows, from memory where they were asked for before."""
        memory = self._memory
        if self.n_nodes > _REMEMBER_BELOW:
            return self.columns(nodes)
        missing = np.array([node for node in nodes.tolist() if node not in memory], dtype=np.intp)
        fresh = dict(zip(missing.tolist(), self.columns(missing), strict=True))
        rows = np.array(
            [memory[node] if node in memory else fresh[node] for node in nodes.tolist()]
        )
        if (len(memory) + len(fresh)) * self.n_nodes * 8 <= _REMEMBER_BYTES:
            memory.update(fresh)
        return rows.reshape(nodes.size, self.n_nodes)

    def knowing(self, raw_variances: Vector, order: Rows | None = None) -> "GraphMatern":
        """Return the same kernel, told what takes long on large graphs.

        Args:
            raw_variances: the variances of all nodes before normalisation, shape (n,).
            order: of elimination (`order`), shape (n,); any permutation is right, a poor one slow.
        """
        known = as_vector("raw_variances", raw_variances, self.n_nodes)
        require_positive("raw_variances", known)
        other = changed(self)
        other.__dict__["raw_variances"] = known
        if order is not None:
            if not np.array_equal(np.sort(order), np.arange(self.n_nodes)):
                msg = f"order must be a permutation of the {self.n_nodes} nodes"
                raise ValueError(msg)
            other.__dict__["order"] = np.asarray(order, dtype=np.intp)
        return other

    def forget(self) -> None:
        """Drop the columns kept in memory, so that a run that is timed starts as any other."""
        self._memory.clear()

    @cached_property
    def _memory(self) -> dict[int, Vector]:
        return {}

    @cached_property
    def precision(self) -> csc_array:
        r"""The sparse matrix :math:`M = 2\nu/\kappa^2 I + B B^T`."""
        tails, heads = self.turns.T
        squares = (self.lengths.mean() / self.lengths[tails]) ** 2
        everything = np.arange(self.n_nodes)
        shift = np.full(self.n_nodes, 2 * self.nu / self.kappa**2)
        return csc_array(
            coo_array(
                (
                    np.concatenate([squares, squares, -squares, -squares, shift]),
                    (
                        np.concatenate([tails, heads, tails, heads, everything]),
                        np.concatenate([tails, heads, heads, tails, everything]),
                    ),
                ),
                shape=(self.n_nodes, self.n_nodes),
            )
        )

    @property
    def _by_solves(self) -> bool:
        return self.nu == int(self.nu)

    @cached_property
    def order(self) -> Rows:
        """An order of elimination that fills little in, shape (n,)."""
        ordered = splu(  # only for that
            self.precision,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        found: Rows = np.argsort(ordered.perm_c)
        return found

    @cached_property
    def _factor(self) -> SparseLDL:
        matrix = self.precision
        return SparseLDL.of(
            matrix.indptr.astype(np.intp),
            matrix.indices.astype(np.intp),
            matrix.data,
            self.order,
        )

    @cached_property
    def _eigen(self) -> tuple[Vector, Matrix]:
        values, vectors = eigh(self.precision.toarray())
        return values, vectors

    @cached_property
    def raw_variances(self) -> Vector:
        """The variances of all nodes before normalisation."""
        return self._power_diagonal(self.nu)

    @cached_property
    def scales(self) -> Vector:
        """What rows of a root of K are multiplied by after normalisation, shape (n,)."""
        match self.normalise:
            case "none":
                scales = np.ones(self.n_nodes)
            case "mean":
                scales = np.full(self.n_nodes, 1 / math.sqrt(self.raw_variances.mean()))
            case "correlation":
                scales = 1 / np.sqrt(self.raw_variances)
        return math.sqrt(self.variance) * scales

    @cached_property
    def _variances(self) -> Vector:
        return self.raw_variances * self.scales**2

    def _root_times(self, noise: Vector) -> Vector:
        """Return a matrix root of K, as it is before normalisation, times a vector."""
        if self._by_solves:
            return self._factor.root_times(noise, int(self.nu))
        values, vectors = self._eigen
        root: Vector = vectors @ (values ** (-self.nu / 2) * noise)
        return root

    def root_times(self, noise: Matrix) -> Matrix:
        """Return a matrix root of K times columns, shape (n, s); for an integer nu."""
        found: Matrix = self._factor.root_times_many(noise, int(self.nu))
        found *= self.scales[:, None].astype(noise.dtype)
        return found

    def root_transposed_times(self, columns: Matrix) -> Matrix:
        """Return the transposed root times columns, shape (n, s); for an integer nu."""
        scaled: Matrix = self.scales[:, None].astype(columns.dtype) * columns
        return self._factor.root_transposed_many(scaled, int(self.nu))

    def _nodes(self, arms: Arms) -> Rows:
        outside = (arms.ids < 0) | (arms.ids >= self.n_nodes)
        if outside.any():
            msg = (
                f"arm id {int(arms.ids[outside][0])} is no segment of this graph, "
                f"whose ids are 0 to {self.n_nodes - 1}"
            )
            raise ValueError(msg)
        return arms.ids


def _added_up(weights: Matrix, which: Rows, size: int) -> Matrix:
    """Return weights of pairs of arms summed up by pairs of the nodes they stand on."""
    if size == which.size and np.array_equal(which, np.arange(size)):
        return weights
    total = np.zeros((size, size))
    np.add.at(total, (which[:, None], which), weights)
    return total
