r"""What the equations of an ensemble are made of, on another device.

Sparse triangular solves are slow on a GPU; what a graph's root needs, :math:`M^{-1} X`, is solved
for by conjugate gradients with the diagonal of M, to a relative residual of `ROUGH` within the
solution and of `EXACT` where residuals are computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.roots import GraphRoot, PriorRoot
from superarm.beliefs.ensemble.solving import MOST_ITERATIONS
from superarm.beliefs.ensemble.system import REFINEMENTS
from superarm.devices import Device, Remote
from superarm.errors import CapacityError, NumericalError

ROUGH, EXACT = 1e-4, 1e-10
"""Relative residuals of the graph's solves, in single and in double precision."""

_TILE = 65_536


def gradients(  # noqa: PLR0913 - a system, and when to stop
    device: Device,
    times: Callable[[Remote], Remote],
    right: Remote,
    goal: Remote,
    *,
    every: int = 1,
    what: str,
) -> tuple[Remote, int]:
    """Solve for many right-hand sides by conjugate gradients on a device.

    Args:
        device: where.
        times: the matrix times columns.
        right: the right-hand sides, shape (p, s).
        goal: the squared norm at which each is solved, shape (s,).
        every: how often to look whether all are.
        what: is solved, for the error.
    """
    torch = device.torch
    solution, left, ahead = torch.zeros_like(right), right.clone(), right.clone()
    gain, none = squares_of(right), right.new_zeros(())
    for count in range(MOST_ITERATIONS):
        if count % every == 0:
            if bool((gain <= goal).all()):
                return solution, count
            if not bool(torch.isfinite(gain).all()):
                break
        pushed = times(ahead)
        going, size = gain > goal, (ahead * pushed).sum(0)
        rate = torch.where(going & (size > 0), gain / size, none)
        solution.addcmul_(ahead, rate)
        left.addcmul_(pushed, -rate)
        fresh = torch.where(going, squares_of(left), gain)
        ratio = torch.where(going, fresh / gain, none)
        torch.addcmul(left, ahead, ratio, out=ahead)
        gain = fresh
    msg = (
        f"{what} does not converge in {MOST_ITERATIONS} steps; raise tolerance, or noise "
        "variances that are tiny"
    )
    raise NumericalError(msg)


def squares_of(columns: Remote) -> Remote:
    """Return the squared norms of columns, shape (s,)."""
    return (columns * columns).sum(0)


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A `GraphRoot` on a device."""

    device: Device
    graph: GraphRoot

    @cached_property
    def _parts(self) -> dict[bool, tuple[Remote, Remote, Remote, Remote]]:
        """M, scaled to a diagonal of one, by what, scales of nodes and of arms; both precisions."""
        kernel, device = self.graph.kernel, self.device
        if kernel.nu % 2:
            msg = f"on a device GraphMatern must have an even nu, this one has {kernel.nu:g}"
            raise CapacityError(msg)
        matrix = csr_array(kernel.precision)
        shape = matrix.shape
        found = {}
        for single in (False, True):
            root = 1 / np.sqrt(matrix.diagonal())
            owner = np.repeat(root, np.diff(matrix.indptr))
            parts = (matrix.indptr, matrix.indices, matrix.data * owner * root[matrix.indices])
            dense = (root, kernel.scales, self.graph.scales)
            sparse = device.sparse(*parts, shape, single=single)
            found[single] = (sparse, *(device.put(a[:, None], single=single) for a in dense))
        return found

    @cached_property
    def _nodes(self) -> Remote | None:
        nodes = self.graph.nodes
        same = np.array_equal(nodes, np.arange(self.graph.size)) and bool(self.graph.scales.all())
        return None if same else self.device.put(nodes)

    def times(self, latent: Remote, *, rough: bool) -> Remote:
        """Return the rows of the arms times columns."""
        _, _, scales, mine = self._parts[rough]
        found = self._powers(latent, rough=rough) * scales
        return (found if self._nodes is None else found[self._nodes]) * mine

    def transposed(self, values: Remote, *, rough: bool) -> Remote:
        """Return the transposed root times columns."""
        _, _, scales, mine = self._parts[rough]
        spread = values * mine
        if self._nodes is not None:
            empty = spread.new_zeros((self.graph.size, spread.shape[1]))
            spread = empty.index_add_(0, self._nodes, spread)
        return self._powers(spread * scales, rough=rough)

    def _powers(self, right: Remote, *, rough: bool) -> Remote:
        for _ in range(int(self.graph.kernel.nu) // 2):
            right = self._solved(right, rough=rough)
        return right

    def _solved(self, right: Remote, *, rough: bool) -> Remote:
        """Solve with M; in double precision what single precision leaves is solved for again."""
        matrix, root, _, _ = self._parts[rough]
        left = right * root
        if rough:
            return self._single(left).mul_(root)
        goal = squares_of(left) * EXACT**2
        solution = left.new_zeros(left.shape)
        for _ in range(REFINEMENTS):
            size = left.abs().amax(0)
            size = size.where(size > 0, size.new_ones(()))
            step = self._single((left / size).float()).double() * size
            solution += step
            left -= matrix @ step
            if bool((squares_of(left) <= goal).all()):
                return solution.mul_(root)
        msg = "solves with a graph's precision do not get as exact as they should on this device"
        raise NumericalError(msg)

    def _single(self, right: Remote) -> Remote:
        """Solve with the scaled M in single precision, columns of any size."""
        matrix = self._parts[True][0]
        size = right.abs().amax(0)  # squares of tiny numbers would be zero
        size = size.where(size > 0, size.new_ones(()))
        right = right / size
        found, _ = gradients(
            self.device,
            lambda latent: matrix @ latent,
            right,
            squares_of(right) * ROUGH**2,
            every=5,
            what="the precision of a graph",
        )
        return found.mul_(size)


@dataclass(frozen=True, eq=False)
class DeviceRoot:
    """A `PriorRoot` on a device."""

    device: Device
    host: PriorRoot

    @cached_property
    def features(self) -> Remote:
        """In single precision if they are many."""
        return self.device.put(self.host.features, single=self.host.features.dtype == np.float32)

    @cached_property
    def own(self) -> Remote:
        """Standard deviations, shape (n, 1)."""
        return self.device.put(self.host.own[:, None])

    @cached_property
    def graphs(self) -> tuple[DeviceGraph, ...]:
        """Parts that are smooth on a graph."""
        return tuple(DeviceGraph(self.device, graph) for graph in self.host.graphs)

    def times(self, latent: Remote, *, rough: bool = False) -> Remote:
        """Return L times columns, in their precision."""
        rank, n = self.host.rank, self.host.n_arms
        values = self.own.to(latent.dtype) * latent[rank : rank + n]
        begin = rank + n
        for graph in self.graphs:
            part = latent[begin : begin + graph.graph.size]
            values += graph.times(part, rough=rough)
            begin += graph.graph.size
        return self.with_features(values, latent[:rank])

    def with_features(self, values: Remote, latent: Remote) -> Remote:
        """Add the features times columns to values, in place."""
        if latent.dtype == self.features.dtype:
            return values.addmm_(self.features, latent)
        for begin in range(0, self.host.n_arms, _TILE):
            part = slice(begin, begin + _TILE)
            values[part] += self.features[part].to(latent.dtype) @ latent
        return values

    def transposed(self, values: Remote, *, rough: bool = False) -> Remote:
        """Return the transposed L times columns, in their precision."""
        parts = [self._of_features(values), self.own.to(values.dtype) * values]
        parts += [graph.transposed(values, rough=rough) for graph in self.graphs]
        return self.device.joined(parts)

    def _of_features(self, values: Remote) -> Remote:
        if values.dtype == self.features.dtype:
            return self.features.T @ values
        total = values.new_zeros((self.host.rank, values.shape[1]))
        for begin in range(0, self.host.n_arms, _TILE):
            part = slice(begin, begin + _TILE)
            total += self.features[part].to(values.dtype).T @ values[part]
        return total


@dataclass(frozen=True, eq=False)
class DeviceObservations:
    """`Observations` on a device."""

    device: Device
    host: Observations

    @cached_property
    def _rows(self) -> dict[bool, tuple[Remote, Remote, Remote]]:
        """W, its transpose and the shares, in both precisions."""
        rows, found = self.host.rows, {}
        back = csr_array(rows.T)
        for single in (False, True):
            ways = [
                self.device.sparse(way.indptr, way.indices, way.data, way.shape, single=single)
                for way in (rows, back)
            ]
            shares = self.device.put(self.host.shares[:, None], single=single)
            found[single] = (ways[0], ways[1], shares)
        return found

    @cached_property
    def _groups(self) -> Remote | None:
        """Which group every row belongs to, if any share an error."""
        if not self.host.shares.any():
            return None
        sizes = np.diff(self.host.groups)
        return self.device.put(np.repeat(np.arange(sizes.size), sizes))

    @cached_property
    def _diagonal(self) -> Remote:
        return self.device.put(self.host.diagonal[:, None])

    def times(self, values: Remote) -> Remote:
        """Return A times columns, in their precision."""
        single = values.dtype == self.device.torch.float32
        found = values.new_zeros(values.shape)
        if self.host.n_rows:
            rows, back, shares = self._rows[single]
            found = back @ self._without_shared(rows @ values, shares)
        if self.host.has_diagonal:
            found = found + self._diagonal.to(values.dtype) * values
        return found

    def _without_shared(self, seen: Remote, shares: Remote) -> Remote:
        if self._groups is None:
            return seen
        common = seen.new_zeros((self.host.groups.size - 1, seen.shape[1]))
        common.index_add_(0, self._groups, shares * seen)
        return seen - shares * common[self._groups]
