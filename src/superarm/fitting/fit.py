"""The prior that fits what a belief has seen."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Literal

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from superarm.arrays import Mask, Matrix, Vector, as_count, require_positive
from superarm.beliefs.statistics import ArmStatistics
from superarm.errors import NumericalError
from superarm.fitting.evidence import MEAN, NOISE, NOISE_SCALE, B, Objective, require_fittable
from superarm.fitting.figures import plot_lengthscales
from superarm.fitting.hyperpriors import Hyperprior, LogNormal, Normal, feature_spread, usual
from superarm.kernels import Kernel, OnFeatures, Product, Sum

FEW_ARMS = 400
"""Restarts look at so many arms; the best of them goes on with all."""

MOST_ARMS = 12_000
"""More distinct arms are not fitted at once: a matrix of that size is solved in every step."""

_FAR = math.log(1e6)  # parameters stay within this factor of where their hyperprior has its median
_IMPOSSIBLE = 1e300
_STEP = 1e-4
_TELLING = 0.8
_LITTLE = 3.0
_CONVERGED = 0.02
_FLAT = 1e-6  # directions of less curvature are not measured in errors
_ROUND_SLOPE = 0.01  # in units of errors: the loss is half of its square above its least


@dataclass(frozen=True, eq=False)
class Fit(Generic[B]):
    """What came of a fit.

    Attributes:
        belief: that has seen the same rewards under the fitted prior.
        values: of all parameters by name, in the units of the data.
        standard_errors: of the values, from the curvature at the optimum; zero where held fixed.
        before: the values before.
        evidence_before: the log evidence of the prior before.
        evidence: the log evidence of the fitted prior.
        evidence_of_nothing: the log evidence if arms did not differ at all.
        hyperpriors: what was believed of parameters.
        problems: what the data cannot support, in words; empty if all is well.
        feature_spread: the deviation of every feature of the arms seen, shape (d,).
        evaluations: how often the evidence was evaluated.
    """

    belief: B
    values: Mapping[str, float]
    standard_errors: Mapping[str, float]
    before: Mapping[str, float]
    evidence_before: float
    evidence: float
    evidence_of_nothing: float
    hyperpriors: Mapping[str, Hyperprior]
    problems: tuple[str, ...]
    feature_spread: Vector
    evaluations: int

    def figure(self, features: list[str] | None = None) -> Figure:
        """Return a picture: which features matter, and what else was found.

        Args:
            features: their names, in the order of the contexts.
        """
        return plot_lengthscales(self, features)

    @property
    def supported(self) -> bool:
        """Whether the data support the fit."""
        return not self.problems

    def table(self) -> str:
        """Return all values as a table, with what stands against them."""
        width = max(len(name) for name in self.values)
        lines = [f"{'parameter':<{width}}  {'before':>10}  {'fitted':>10}  {'std. error':>10}"]
        for name, value in self.values.items():
            error = self.standard_errors[name]
            shown = f"{error:>10.3g}" if error > 0 else f"{'fixed':>10}"
            lines.append(f"{name:<{width}}  {self.before[name]:>10.4g}  {value:>10.4g}  {shown}")
        lines.append(
            f"log evidence {self.evidence_before:,.2f} before, {self.evidence:,.2f} fitted, "
            f"{self.evidence_of_nothing:,.2f} if arms did not differ"
        )
        return "\n".join([*lines, *(f"note: {problem}" for problem in self.problems)])

    def __str__(self) -> str:
        """Return the table."""
        return self.table()

    def __repr__(self) -> str:
        """Return one line."""
        gain = self.evidence - self.evidence_before
        said = f", {len(self.problems)} notes" if self.problems else ""
        return f"Fit({len(self.values)} parameters, evidence {gain:+.1f}{said})"


def fit(  # noqa: PLR0913 - all but the belief have good defaults
    belief: B,
    *,
    fixed: Collection[str] | Mapping[str, float] = (),
    hyperpriors: Mapping[str, LogNormal] | Literal["usual"] | None = "usual",
    restarts: int = 4,
    rng: np.random.Generator | None = None,
    most_steps: int = 200,
) -> Fit[B]:
    """Return the prior that makes what a belief has seen most likely, and the belief under it.

    Args:
        belief: what was seen, under some prior: its kernel says what can be fitted.
        fixed: names of parameters to be left as they are, or values to hold them at.
        hyperpriors: what is believed of parameters. By default wide ones in the units of the data;
            those given by name replace them; with None the evidence alone decides.
        restarts: how many other starting points to try.
        rng: draws them; the same ones by default.
        most_steps: of the optimiser, from the best starting point.
    """
    require_fittable(belief)
    objective = Objective.of(belief)
    _require_enough(objective)
    search = _Search(objective, fixed, hyperpriors)
    rng = rng or np.random.default_rng(0)
    best, converged = search.run(as_count("restarts", restarts), most_steps, rng)
    values = search.values_of(best)
    errors, telling = search.errors(best)
    kernel, factor, level = objective.with_values(values)
    after = search.log_density(values)
    nothing = _evidence_of_nothing(objective)
    problems = [*search.notes, *search.problems(best, telling)]
    if not converged:
        problems.append(f"the search did not come to rest within {most_steps} steps")
    if after - nothing < _LITTLE:
        problems.append(
            "the rewards do not show that arms differ by what the kernel sees: noise alone "
            f"explains them as well (log evidence {nothing:.1f}, fitted {after:.1f})"
        )
    return Fit(
        belief=belief.reconsidered(kernel, noise_factor=factor, mean=level),
        values=dict(zip(objective.names, values.tolist(), strict=True)),
        standard_errors=dict(zip(objective.names, errors.tolist(), strict=True)),
        before=dict(zip(objective.names, objective.start.tolist(), strict=True)),
        evidence_before=search.log_density(objective.start),
        evidence=after,
        evidence_of_nothing=nothing,
        hyperpriors=search.hyperpriors,
        problems=tuple(problems),
        feature_spread=feature_spread(objective.observed.arms),
        evaluations=search.evaluations,
    )


class _Search:
    """Finds the best parameters: logarithms, and the mean in deviations of rewards."""

    def __init__(
        self,
        objective: Objective,
        fixed: Collection[str] | Mapping[str, float],
        hyperpriors: Mapping[str, LogNormal] | Literal["usual"] | None,
    ) -> None:
        self.objective = objective
        self.evaluations = 0
        self.notes: list[str] = []
        self.level, self.variance = _level_and_variance(objective)
        names, start = objective.names, objective.start
        known = dict(zip(names, start.tolist(), strict=True))
        arms = objective.observed.arms
        gains = _gains(objective)
        self._usual = usual(known, gains, arms, self.level, self.variance)
        self.hyperpriors: dict[str, Hyperprior] = {}
        if hyperpriors is not None:
            self.hyperpriors = dict(self._usual)
            if hyperpriors != "usual":
                require_known(hyperpriors, names)
                self.hyperpriors |= hyperpriors
        require_known(fixed, names)
        values = (
            dict(fixed) if isinstance(fixed, Mapping) else {name: known[name] for name in fixed}
        )
        held = set(values)
        for name in names:
            if name in held or name in self._usual:
                continue
            held.add(name)
            self.notes.append(f"{name} is left as it is: its feature does not vary")
        for name in redundant(objective.kernel):
            if name not in held:
                held.add(name)
                self.notes.append(f"{name} is left as it is: another variance multiplies the same")
        self._fixed = np.array([values.get(name, known[name]) for name in names])
        self.free: Mask = np.array([name not in held for name in names])

    # ---- parameters as the optimiser sees them

    def values_of(self, x: Vector) -> Vector:
        """Return parameters in the units of the data."""
        values = self._fixed.copy()
        names = np.array(self.objective.names)[self.free]
        values[self.free] = [
            self.level + part * math.sqrt(self.variance) if name == MEAN else math.exp(part)
            for name, part in zip(names, x.tolist(), strict=True)
        ]
        return values

    def place_of(self, values: Vector) -> Vector:
        """Return where some parameters are."""
        found = [
            (value - self.level) / math.sqrt(self.variance) if name == MEAN else math.log(value)
            for name, value in zip(self.objective.names, values.tolist(), strict=True)
        ]
        return np.array(found)[self.free]

    def log_density(self, values: Vector) -> float:
        """Return the log evidence, or minus infinity where it cannot be computed."""
        try:
            return self.objective.at(values)[1].log
        except NumericalError:
            return -math.inf

    def loss(self, x: Vector, objective: Objective) -> tuple[float, Vector]:
        """Return minus the log posterior of parameters, and its slopes."""
        self.evaluations += 1
        values = self.values_of(x)
        try:
            total, slopes = objective.density(values)
        except (NumericalError, ValueError, FloatingPointError):
            return _IMPOSSIBLE, np.zeros(x.size)
        if objective.has_mean:
            slopes[-1] *= math.sqrt(self.variance)
        slopes = slopes[self.free]
        names = np.array(objective.names)[self.free]
        for place, name in enumerate(names):
            prior = self.hyperpriors.get(str(name))
            if prior is None or math.isinf(prior.width):
                continue
            if isinstance(prior, Normal):
                value = self.level + float(x[place]) * math.sqrt(self.variance)
                more, slope = prior.log_density(value)
                slope *= math.sqrt(self.variance)
            else:
                more, slope = prior.log_density(float(x[place]))
            total += more
            slopes[place] += slope
        if not (math.isfinite(total) and np.isfinite(slopes).all()):
            return _IMPOSSIBLE, np.zeros(x.size)
        return -total, -slopes

    # ---- the search

    def run(self, restarts: int, most_steps: int, rng: np.random.Generator) -> tuple[Vector, bool]:
        """Return the best place and whether the search came to rest there."""
        if not self.free.any():
            return np.empty(0), True
        starts = self._starts(restarts, rng)
        size = self.objective.observed.target.size
        few = self.objective
        if self.objective.statistics is not None and size > FEW_ARMS:
            few = self.objective.on(np.sort(rng.choice(size, FEW_ARMS, replace=False)))
        found = [self._descended(start, few, most_steps // 2) for start in starts]
        order = np.argsort([loss for _, loss, _ in found])
        best, _, converged = found[int(order[0])]
        if few is not self.objective:
            candidates = [best, starts[0]]
            losses = [self.loss(place, self.objective)[0] for place in candidates]
            start = candidates[int(np.argmin(losses))]
            share = size / FEW_ARMS
            best, converged = self._refined(start, self.curvature(start, few) * share, most_steps)
        elif not converged:
            best, _, converged = self._descended(best, self.objective, most_steps)
        return best, converged

    def _refined(self, start: Vector, curvature: Matrix, most_steps: int) -> tuple[Vector, bool]:
        """Return the best place of all arms, near that of a few, whose curvature is known.

        In units of the errors that the curvature says, where the loss is round: a third of the
        steps are enough. Places at the bounds are no such places.
        """
        low, high = self.bounds()
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
        if values.min() <= _FLAT * max(values.max(), 1.0) or not _inside_of(start, low, high):
            best, _, converged = self._descended(start, self.objective, most_steps)
            return best, converged
        turn = vectors / np.sqrt(values)

        def loss(z: Vector) -> tuple[float, Vector]:
            total, slopes = self.loss(start + turn @ z, self.objective)
            return total, slopes @ turn

        done = minimize(
            loss,
            np.zeros(start.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": most_steps, "ftol": 1e-12, "gtol": _ROUND_SLOPE},
        )
        best = start + turn @ done.x
        if not done.success or not _inside_of(best, low, high):
            best, _, converged = self._descended(
                np.clip(best, low, high), self.objective, most_steps
            )
            return best, converged
        return best, True

    def _starts(self, restarts: int, rng: np.random.Generator) -> list[Vector]:
        """Return starting points: what is believed now in the right unit, the usual, others."""
        names = np.array(self.objective.names)[self.free]
        low, high = self.bounds()
        first = self.place_of(self._rescaled())
        medians, widths = [], []
        for name in names:
            prior = self._usual[str(name)]
            mean = isinstance(prior, Normal)
            medians.append(0.0 if mean else math.log(prior.median))
            widths.append(0.3 if mean else prior.width)
        middle, width = np.array(medians), np.array(widths)
        others = [middle] if restarts else []
        others += [
            middle + 0.7 * width * rng.standard_normal(middle.size) for _ in range(restarts - 1)
        ]
        return [np.clip(start, low, high) for start in (first, *others)]

    def _rescaled(self) -> Vector:
        """Return the values before, with variances in the unit of the rewards."""
        objective, values = self.objective, self._fixed.copy()
        if objective.has_mean and self.free[-1]:
            values[-1] = self.level
        try:
            unit = objective.at(values)[1].square / objective.observed.count
        except NumericalError:
            unit = 1.0
        scales = {name for name in objective.names if name.rpartition(".")[2] == "variance"}
        scales |= {NOISE, NOISE_SCALE}
        for place, name in enumerate(objective.names):
            if name in scales and self.free[place] and unit > 0:
                values[place] *= unit
        return values

    def bounds(self) -> tuple[Vector, Vector]:
        """Return how far parameters may go."""
        names = np.array(self.objective.names)[self.free]
        middle = [
            0.0 if name == MEAN else math.log(self._usual[str(name)].median) for name in names
        ]
        reach = np.array([30.0 if name == MEAN else _FAR for name in names])
        return np.array(middle) - reach, np.array(middle) + reach

    def _descended(
        self, start: Vector, objective: Objective, most_steps: int
    ) -> tuple[Vector, float, bool]:
        low, high = self.bounds()
        done = minimize(
            self.loss,
            np.clip(start, low, high),
            args=(objective,),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": most_steps, "ftol": 1e-10, "gtol": 1e-4},
        )
        slopes = self.loss(done.x, objective)[1]
        inside = (done.x > low) & (done.x < high)
        rest = float(np.abs(slopes[inside]).max(initial=0.0))
        return done.x, float(done.fun), bool(done.success) or rest < _CONVERGED

    # ---- how sure it is

    def errors(self, best: Vector) -> tuple[Vector, Vector]:
        """Return standard errors in the units of the data, and of the parameters as searched."""
        errors = np.zeros(self.free.size)
        if best.size == 0:
            return errors, np.empty(0)
        curvature = self.curvature(best, self.objective)
        found = np.sqrt(np.maximum(_inverse(curvature).diagonal(), 0.0))
        names = np.array(self.objective.names)[self.free]
        values = self.values_of(best)[self.free]
        units = [
            math.sqrt(self.variance) if name == MEAN else value
            for name, value in zip(names, values, strict=True)
        ]
        errors[self.free] = found * np.array(units)
        return errors, found

    def curvature(self, place: Vector, objective: Objective) -> Matrix:
        """Return the second derivatives of the loss, by differences of slopes."""
        here = self.loss(place, objective)[1]
        found = np.empty((place.size, place.size))
        for row in range(place.size):
            step = np.zeros(place.size)
            step[row] = _STEP
            found[row] = (self.loss(place + step, objective)[1] - here) / _STEP
        return (found + found.T) / 2

    def problems(self, best: Vector, errors: Vector) -> list[str]:
        """Say what the data do not tell."""
        low, high = self.bounds()
        names = np.array(self.objective.names)[self.free]
        said = []
        for place, name in enumerate(names):
            if name == MEAN:
                continue
            prior = self.hyperpriors.get(str(name))
            if not low[place] + 0.01 < best[place] < high[place] - 0.01:
                said.append(f"{name} went as far as it may: the data do not bound it")
            elif isinstance(prior, LogNormal) and errors[place] > _TELLING * prior.width:
                said.append(f"the data say little about {name}: it is as its hyperprior has it")
        return said


def _inside_of(place: Vector, low: Vector, high: Vector) -> bool:
    """Say whether a place is well within bounds."""
    return bool(((place > low + 1) & (place < high - 1)).all())


def redundant(kernel: Kernel) -> tuple[str, ...]:
    """Return the variances that multiply the same part of a kernel as another one does."""
    if isinstance(kernel, OnFeatures):  # variances keep their names there
        return redundant(kernel.kernel)
    if isinstance(kernel, Product):
        return kernel.scale_parameters()[1:] + tuple(
            name for name in _inside(kernel) if name not in kernel.scale_parameters()
        )
    if isinstance(kernel, Sum):
        return _inside(kernel)
    return ()


def _inside(kernel: Product | Sum) -> tuple[str, ...]:
    left = tuple(f"left.{name}" for name in redundant(kernel.left))
    return left + tuple(f"right.{name}" for name in redundant(kernel.right))


def require_known(given: Collection[str], names: tuple[str, ...]) -> None:
    """Refuse names that no parameter has, and values that none can have."""
    unknown = [name for name in given if name not in names]
    if unknown:
        msg = f"there is no parameter {unknown[0]!r}; there are {', '.join(names)}"
        raise ValueError(msg)
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name != MEAN and isinstance(value, (int, float)):
                require_positive(name, value)


def _require_enough(objective: Objective) -> None:
    seen = objective.observed
    if seen.count < 3 or seen.target.size < 2:  # noqa: PLR2004 - see the message
        msg = (
            f"{seen.count} rewards of {len(seen.arms)} arms cannot be fitted; it takes three "
            "rewards of two arms at least, and some dozens to say anything"
        )
        raise ValueError(msg)
    if len(seen.arms) > MOST_ARMS:
        msg = (
            f"{len(seen.arms):,} distinct arms are too many to be fitted at once; fit a belief "
            f"that has seen {MOST_ARMS:,} of them at most"
        )
        raise ValueError(msg)
    level, variance = _level_and_variance(objective)
    if not variance > 1e-20 * max(level**2, 1e-280):
        msg = "all rewards are equal: no prior can be learned from them"
        raise ValueError(msg)


def _level_and_variance(objective: Objective) -> tuple[float, float]:
    """Return the mean of rewards and their variance, in their own unit."""
    seen = objective.observed
    statistics = objective.statistics
    if isinstance(statistics, ArmStatistics):
        known = statistics.counts > 0
        counts, averages = statistics.counts[known], statistics.averages[known]
        level = float(counts @ averages / counts.sum())
        within = statistics.squares[known] * counts / statistics.precision[known]
        total = float((counts * (averages - level) ** 2 + within).sum())
        return level, total / max(counts.sum() - 1, 1.0)
    ones = seen.root.sum(axis=0) if seen.root.ndim > 1 else seen.root
    level = float(ones @ seen.target / (ones @ ones))
    kernel = objective.kernel
    try:
        found = seen.density(kernel.gram(seen.arms, seen.arms), np.full(seen.mean.size, level))
    except NumericalError:
        return level, float(kernel.diagonal(seen.arms).mean())
    return level, found.square / seen.count * float(kernel.diagonal(seen.arms).mean())


def _gains(objective: Objective) -> dict[str, float]:
    """Return what one unit of each variance adds to the prior variance of the arms, on average."""
    kernel, arms = objective.kernel, objective.observed.arms
    before = float(kernel.diagonal(arms).mean())
    gains = {}
    for name, value in kernel.parameters().items():
        if name.rpartition(".")[2] == "variance":
            more = kernel.with_parameters({name: 2 * value}).diagonal(arms).mean() - before
            gains[name] = max(float(more) / value, 1e-12)
    return gains


def _evidence_of_nothing(objective: Objective) -> float:
    """Return the best log evidence of noise around a common mean."""
    seen = objective.observed
    ones = seen.root if seen.root.ndim == 1 else seen.root.sum(axis=0)
    level = float(ones @ seen.target / (ones @ ones))
    left = seen.target - level * ones
    square = float(left @ left) + seen.rest
    factor = max(square / seen.count, 1e-300)
    return -0.5 * (seen.count * (1 + math.log(2 * math.pi * factor)) + seen.log_noise)


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a curvature; flat or wrong directions are as uncertain as can be."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 1e-6)
    inverse: Matrix = (vectors / values) @ vectors.T
    return inverse
