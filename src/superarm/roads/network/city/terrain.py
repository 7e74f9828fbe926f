"""The ground of a generated city: smooth hills, a river in its valley."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, Vector

_WAVES = 28
_VALLEY_DEPTH = 2.0  # against hills of variance one


@dataclass(frozen=True, eq=False)
class River:
    """A winding course from west to east: y as a sum of waves in x."""

    amplitude_m: Vector
    wavelength_m: Vector
    phase: Vector
    level_m: float
    half_width_m: float

    @classmethod
    def drawn(cls, radius_m: float, rng: np.random.Generator) -> "River":
        """Draw a course through a city of this radius, off its centre."""
        return cls(
            amplitude_m=radius_m * np.array([0.16, 0.06]) * rng.uniform(0.7, 1.2, 2),
            wavelength_m=radius_m * np.array([2.1, 0.8]) * rng.uniform(0.8, 1.2, 2),
            phase=rng.uniform(0, 2 * np.pi, 2),
            level_m=radius_m * rng.uniform(0.12, 0.22) * rng.choice([-1.0, 1.0]),
            half_width_m=float(np.clip(0.012 * radius_m, 45.0, 130.0)),
        )

    def course(self, x: Vector) -> Vector:
        """Return the y of the middle of the river."""
        angles = 2 * np.pi * x[:, None] / self.wavelength_m + self.phase
        return self.level_m + np.sin(angles) @ self.amplitude_m

    def signed_distance(self, xy: Matrix) -> Vector:
        """Return how far north of the middle a point lies, roughly at right angles to it."""
        x = xy[:, 0]
        slope = (self.course(x + 1.0) - self.course(x - 1.0)) / 2.0
        return (xy[:, 1] - self.course(x)) / np.sqrt(1 + slope**2)


@dataclass(frozen=True, eq=False)
class Terrain:
    """A smooth random height field with a valley along the river."""

    wave_vectors: Matrix
    amplitudes: Vector
    phases: Vector
    river: River
    valley_width_m: float
    range_m: float

    @classmethod
    def drawn(cls, radius_m: float, river: River, rng: np.random.Generator) -> "Terrain":
        """Draw hills some kilometres wide and 100 to 200 metres high, river level to hill top."""
        longest = np.clip(1.6 * radius_m, 2500.0, 9000.0)
        wavelength = longest * rng.uniform(0.35, 1.0, _WAVES)
        angle = rng.uniform(0, 2 * np.pi, _WAVES)
        vectors = 2 * np.pi / wavelength[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        range_m = float(np.clip(100.0 + 100.0 * (radius_m - 1500.0) / 6000.0, 100.0, 200.0))
        amplitudes = (wavelength / longest) ** 1.5
        return cls(
            wave_vectors=vectors,
            amplitudes=amplitudes / np.sqrt((amplitudes**2).sum() / 2),
            phases=rng.uniform(0, 2 * np.pi, _WAVES),
            river=river,
            valley_width_m=float(0.22 * longest),
            range_m=range_m,
        )

    def heights(self, xy: Matrix) -> Vector:
        """Return heights in no particular unit; the city stretches them to `range_m`."""
        waves = np.sin(xy @ self.wave_vectors.T + self.phases) @ self.amplitudes
        bank = self.river.signed_distance(xy) / self.valley_width_m
        # hills fade towards the river, which runs in a valley of its own
        hills = (waves + 2.0) * (1 - 0.75 * np.exp(-0.5 * (1.6 * bank) ** 2))
        return hills - _VALLEY_DEPTH * np.exp(-0.5 * bank**2)
