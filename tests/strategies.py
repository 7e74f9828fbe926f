"""Random inputs for the laws."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from superarm import Arms
from superarm.arrays import Matrix, Vector
from superarm.kernels import RBF, Constant, Kernel, Matern12, Matern32, Matern52, PerArm

seeds = st.integers(0, 2**32 - 1)


def finite(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_infinity=False, allow_subnormal=False)


def vectors(size: int, low: float = -3.0, high: float = 3.0) -> st.SearchStrategy[Vector]:
    return hnp.arrays(np.float64, size, elements=finite(low, high))


def rngs() -> st.SearchStrategy[np.random.Generator]:
    return seeds.map(np.random.default_rng)


def random_arms(n: int, d: int, seed: int) -> Arms:
    return Arms(np.arange(n), np.random.default_rng(seed).random((n, d)))


@st.composite
def kernels(draw: Any) -> Kernel:
    shape = draw(st.sampled_from([RBF, Matern12, Matern32, Matern52]))
    kernel: Kernel = shape(
        lengthscale=draw(st.one_of(finite(0.1, 3.0), st.tuples(*[finite(0.1, 3.0)] * 2))),
        variance=draw(finite(0.1, 4.0)),
    )
    match draw(st.integers(0, 4)):
        case 1:
            return kernel + Matern52(draw(finite(0.1, 2.0)), 0.5)
        case 2:
            return kernel * Matern32(draw(finite(0.1, 2.0)), 2.0)
        case 3:
            return kernel + Constant(0.3)
        case 4:
            return 0.5 * kernel + PerArm(0.2)
        case _:
            return kernel


@st.composite
def histories(
    draw: Any, n_arms: int, batches: int = 4
) -> list[tuple[np.ndarray[Any, Any], Vector]]:
    """Batches of positions (with repeats) and rewards, some of them empty or large."""
    rng = np.random.default_rng(draw(seeds))
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 5, 17, 80]), min_size=1, max_size=batches))
    return [(rng.integers(n_arms, size=size), 2 * rng.standard_normal(size)) for size in sizes]


def dense_posterior(
    mean: Vector, covariance: Matrix, noise: Vector, rows: Any, rewards: Any
) -> tuple[Vector, Matrix]:
    """The textbook posterior, every repeat a row of its own."""
    rows = np.asarray(rows, dtype=int)
    if rows.size == 0:
        return mean, covariance
    system = covariance[np.ix_(rows, rows)] + np.diag(noise[rows])
    gain = np.linalg.solve(system, covariance[rows]).T
    return mean + gain @ (np.asarray(rewards) - mean[rows]), covariance - gain @ covariance[rows]


@st.composite
def functionals(
    draw: Any, most: int = 25, size: int = 30
) -> tuple[csr_array, Vector, Vector, csr_array | None]:
    """Weighted sums, their values and noise, and perhaps errors that some share."""
    rng = np.random.default_rng(draw(seeds))
    count = draw(st.integers(1, most))
    dense = rng.standard_normal((count, size)) * (
        rng.random((count, size)) < draw(finite(0.05, 0.6))
    )
    noise = np.exp(rng.uniform(-3, 1, count))
    common = None
    if draw(st.booleans()):
        groups = rng.integers(3, size=count)
        share = rng.standard_normal(count) * (rng.random(count) < 0.7)
        common = csr_array((share, (groups, np.arange(count))), shape=(3, count))
    return csr_array(dense), 2 * rng.standard_normal(count), noise, common
