"""Partial Cholesky factors of kernels: what features explain, and what they leave."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import kernels, random_arms
from superarm import Arms
from superarm.kernels import Kernel, Linear
from superarm.kernels.low_rank import partial_cholesky

N = 25
ARMS = random_arms(N, 2, seed=5)


@given(kernels(), st.integers(1, N))
def test_features_and_what_they_leave_add_up_to_the_variances(kernel: Kernel, most: int) -> None:
    features, left = partial_cholesky(ARMS, kernel, most)
    assert features.shape[0] <= most
    assert (left >= 0).all()
    variances = kernel.diagonal(ARMS)
    assert_allclose((features**2).sum(axis=0) + left, variances, atol=1e-9 * variances.max())


@given(kernels())
def test_as_many_features_as_arms_are_the_whole_covariance(kernel: Kernel) -> None:
    features, left = partial_cholesky(ARMS, kernel, N)
    gram = kernel.gram(ARMS, ARMS)
    # what is left unexplained of two arms bounds what is left of their covariance
    assert_allclose(features.T @ features, gram, atol=1e-6 * np.sqrt(gram.diagonal().max()))
    assert_allclose(left, 0, atol=1e-12 * gram.diagonal().max())


def test_arms_of_small_prior_variance_get_features_too() -> None:
    arms = Arms([0, 1], [[1.0, 0.0], [0.0, 1e-7]])
    features, left = partial_cholesky(arms, Linear(), 2)
    assert_allclose(features.T @ features, np.diag([1.0, 1e-14]), rtol=1e-12)
    assert_allclose(left, 0)
