"""The ensemble on another device: the same equations, with solutions that stay there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse import csr_array

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, frozen
from superarm.beliefs.ensemble.device_parts import (
    DeviceObservations,
    DeviceRoot,
    gradients,
    squares_of,
)
from superarm.beliefs.ensemble.gp import EnsembleGP
from superarm.beliefs.ensemble.observations import Observations, keyed_normals
from superarm.beliefs.ensemble.roots import PriorRoot
from superarm.beliefs.ensemble.solving import Solved, stalled
from superarm.beliefs.ensemble.system import KNOWN_WELL, REFINEMENTS, SINGLE, STALLED
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.devices import Device, Remote
from superarm.errors import CapacityError, NumericalError
from superarm.kernels import Kernel
from superarm.values import changed


@dataclass(frozen=True, eq=False)
class DeviceEquations:
    """`Equations` on a device; the attributes are theirs."""

    device: Device
    root: DeviceRoot
    observations: tuple[DeviceObservations, ...]
    inner: Matrix
    turned: Remote
    felt: Remote
    carried: Remote
    turned_at: int

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(piece.host.count for piece in self.observations)

    @property
    def held_bytes(self) -> int:
        """The bytes of all observations."""
        return sum(piece.host.held_bytes for piece in self.observations)

    @classmethod
    def before(cls, device: Device, root: PriorRoot) -> "DeviceEquations":
        """Return them before the first observation."""
        none = device.zeros(root.n_arms, 0)
        inner = frozen(np.zeros((root.rank, root.rank)))
        turned = device.zeros(root.rank, 0)
        return cls(device, DeviceRoot(device, root), (), inner, turned, none, none, 0)

    def after(self, seen: Observations) -> "DeviceEquations":
        """Return them after more observations."""
        host, inner = self.root.host, self.inner.copy()
        none, no_rows = np.zeros((host.rank, 0)), np.zeros((host.n_arms, 0))
        seen.add_projected(host.features, none, inner, no_rows)
        piece = DeviceObservations(self.device, seen.compact())
        later = changed(self, observations=(*self.observations, piece), inner=frozen(inner))
        if later.count < 2 * self.turned_at:
            carried = self.carried + piece.times(self.felt)
            return changed(later, carried=carried)
        values, vectors = np.linalg.eigh(later.inner)
        turned = self.device.put(vectors[:, values > KNOWN_WELL])
        felt = self.root.device.zeros(host.n_arms, turned.shape[1])
        felt = self.root.with_features(felt, turned)
        return changed(
            later, turned=turned, felt=felt, carried=later.said(felt), turned_at=later.count
        )

    @cached_property
    def precision_diagonal(self) -> Remote:
        """The diagonal of A, shape (n, 1)."""
        total = np.zeros(self.root.host.n_arms)
        for piece in self.observations:
            total += piece.host.precision_diagonal
        return self.device.put(total[:, None])

    def said(self, values: Remote) -> Remote:
        """Return A times columns, in their precision."""
        total = values.new_zeros(values.shape)
        for piece in self.observations:
            total += piece.times(values)
        return total

    @cached_property
    def _inverse(self) -> Remote:
        """The inverse of F."""
        turned = self.device.get(self.turned)
        matrix = np.eye(turned.shape[1]) + turned.T @ self.inner @ turned
        try:
            lower = cholesky(matrix, lower=True)
        except LinAlgError as error:
            msg = "noise variances are too small beside the prior; raise noise_variance"
            raise NumericalError(msg) from error
        half = np.linalg.solve(lower, np.eye(turned.shape[1]))
        return self.device.put(half.T @ half)

    def solved(self, start: Remote, residual: Remote, tolerance: float) -> Solved:
        """Solve systems from where they are; see `Equations.solved`."""
        solution, left, iterations = start, residual, 0
        values = self.device.zeros(self.root.host.n_arms, start.shape[1])
        largest = _largest(left)
        for _ in range(REFINEMENTS):
            if largest <= tolerance:
                break
            step, moved, count = self._step(left, tolerance)
            iterations += count
            solution = solution + step
            values += moved
            left = left - step
            left -= self.root.transposed(self.said(moved))
            before, largest = largest, _largest(left)
            if not largest <= STALLED * before and largest > tolerance:
                break
        if not largest <= tolerance:
            raise stalled(largest, tolerance)
        return Solved(solution, left, largest, iterations, values)

    def _step(self, residual: Remote, tolerance: float) -> tuple[Remote, Remote, int]:
        rank = self.root.host.rank
        known = self.turned.T @ residual[:rank]
        said = (self.carried @ (self._inverse @ known)).float()
        right = residual - self.root.transposed(said, rough=True)
        self._without_known(right)
        norms = squares_of(right).sqrt()
        goal = (norms * SINGLE).clamp(min=0.9 * tolerance).square().float()
        found, count = gradients(
            self.device, self._rest_times, right.float(), goal, what="the posterior"
        )
        step = found.double()
        moved = self.root.times(step)
        shift = self._inverse @ (known - self.carried.T @ moved)
        step[:rank] += self.turned @ shift
        moved += self.felt @ shift
        return step, moved, count

    def _rest_times(self, latent: Remote) -> Remote:
        values = self.root.times(latent, rough=True).double()
        values -= self.felt @ (self._inverse @ (self.carried.T @ values))
        found = self.root.transposed(self.said(values.float()), rough=True)
        found += latent
        self._without_known(found)
        return found

    def _without_known(self, latent: Remote) -> None:
        rank, turned = self.root.host.rank, self.turned.to(latent.dtype)
        latent[:rank] -= turned @ (turned.T @ latent[:rank])


def _largest(columns: Remote) -> float:
    return float(squares_of(columns).max().sqrt()) if columns.numel() else 0.0


@dataclass(frozen=True, eq=False)
class DeviceEnsembleGP(EnsembleGP):
    """An `EnsembleGP` whose solutions live on a device; made by its `from_kernel`.

    Attributes:
        remote: the equations there.
        started: what is each arm's own in the prior draws, shape (n, S).
    """

    remote: DeviceEquations = None  # type: ignore[assignment] # always given
    started: Any = None

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        device: str = "cuda",
        **options: Any,  # noqa: ANN401 - those of EnsembleGP
    ) -> "DeviceEnsembleGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance; graphs with an even nu.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            device: as PyTorch names it.
            options: see `EnsembleGP.from_kernel`; ``rest`` is ``"diagonal"``.
        """
        known = {"rest": "diagonal"} | options
        if known["rest"] != "diagonal":
            msg = (
                f'on a device rest must be "diagonal", got {known["rest"]!r}: kernels kept by '
                "tiles stay in main memory; take EnsembleGP"
            )
            raise CapacityError(msg)
        return cls.moved(
            EnsembleGP.from_kernel(arms, kernel, noise_variance, mean, **known), device
        )

    @classmethod
    def moved(cls, belief: EnsembleGP, name: str) -> "DeviceEnsembleGP":
        """Return a belief that has seen nothing yet, on a device."""
        if belief.root.rests:
            msg = "kernels kept by tiles stay in main memory; take EnsembleGP"
            raise CapacityError(msg)
        device, root, latent = Device(name), belief.root, belief.latent
        there = device.put(latent)
        return cls(
            prior=belief.prior,
            equations=belief.equations,
            seed=belief.seed,
            tolerance=belief.tolerance,
            noise=device.zeros(root.n_arms, belief.n_draws),
            latent=there,
            field=device.put(belief.field),
            residual=there.new_zeros(there.shape),
            reached=0.0,
            iterations=0,
            remote=DeviceEquations.before(device, root),
            started=device.put(root.own_of(latent[:, 1:])),
        )

    def unlearned(self, prior: FinitePrior | None = None) -> "DeviceEnsembleGP":
        """Return the belief before the first observation, under this or its own prior."""
        return DeviceEnsembleGP.moved(super().unlearned(prior), self._device.name)

    @property
    def _device(self) -> Device:
        return self.remote.device

    @property
    def count(self) -> int:
        """How many observations there were."""
        return self.remote.count

    @cached_property
    def draws(self) -> Matrix:
        """Posterior draws of the whole universe, shape (n, S)."""
        return self.prior.mean[:, None] + self._device.get(self.field[:, 1:])

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self.prior.mean + self._device.get(self.field[:, 0])

    @cached_property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,); see `EnsembleGP.variance`."""
        own = self.remote.root.own
        precision = 1 + own**2 * self.remote.precision_diagonal
        expected = self.field[:, 1:] - self.field[:, :1]
        expected = expected - (own / precision) * (self.started + own * self.noise)
        total = (own**2 / precision)[:, 0] + expected.square().mean(1)
        return self._device.get(total)

    def condition_observations(
        self, seen: Observations, *, keys: Rows | None = None
    ) -> "DeviceEnsembleGP":
        """Return the belief after observations; see `EnsembleGP.condition_observations`."""
        if not seen.count:
            return self
        seen.require_rows()
        keys = seen.keys if keys is None else keys
        if keys is None:
            keys = self.count + np.arange(seen.n_rows)
        device, piece = self._device, DeviceObservations(self._device, seen)
        used = np.unique(seen.places).astype(np.intp)
        noise = device.zeros(*self.noise.shape)
        few = seen.noise(keyed_normals(self.seed, keys, self.n_draws), used)
        noise[device.put(used)] = device.put(few)
        said = device.put(seen.weighted) - piece.times(device.put(self.prior.mean[:, None]))[:, 0]
        told = device.torch.cat([said[:, None], said[:, None] + noise], 1)
        told = told - piece.times(self.field)
        remote = self.remote.after(seen)
        residual = self.residual + remote.root.transposed(told)
        solved = remote.solved(self.latent, residual, self.tolerance)
        return changed(
            self,
            noise=self.noise + noise,
            latent=solved.solution,
            field=self.field + solved.values,
            residual=solved.residual,
            reached=solved.largest,
            iterations=solved.iterations,
            remote=remote,
        )

    def covariance_of(self, functionals: csr_array) -> Matrix:
        """Return the posterior covariance of some weighted sums; see `EnsembleGP`."""
        return self._covariance(functionals, self._device.get(self.field))

    def _solved(self, right: Matrix) -> Solved:
        there = self._device.put(right)
        found = self.remote.solved(there.new_zeros(there.shape), there, self.tolerance)
        parts = (found.solution, found.residual, found.values)
        solution, residual, values = (self._device.get(part) for part in parts)
        return Solved(solution, residual, found.largest, found.iterations, values)

    def fresh_draw(self, rng: np.random.Generator) -> Vector:
        """Return one more posterior draw of the whole universe, by a solve of its own."""
        pieces = [one.host for one in self.remote.observations]
        return self._fresh_from(pieces, self._device.get(self.field[:, 0]), rng)

    @property
    def _all(self) -> Observations:
        pieces = [one.host for one in self.remote.observations]
        return sum(pieces, Observations.nothing(self.root.n_arms))

    def __repr__(self) -> str:
        """Return one line."""
        return (
            f"DeviceEnsembleGP({self.root.n_arms:,} arms, {self.count:,} seen, "
            f"draws={self.n_draws}, error={self.reached:.2g}, on {self._device.name})"
        )
