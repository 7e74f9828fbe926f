"""Turns as arms, against the dense posterior of roads, kinds and turns together."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from roads import random_network
from strategies import rngs
from superarm.navigation import RoadModel
from superarm.navigation.turns import KINDS, TurnModel, turn_kinds

NETWORK = random_network(3, n_junctions=8, n_edges=24)
MODEL = TurnModel(RoadModel(NETWORK))


def walk(rng: np.random.Generator, steps: int = 6) -> Any:
    edges = [int(NETWORK.turns[rng.integers(NETWORK.n_turns), 0])]
    for _ in range(steps):
        after = NETWORK.turns[NETWORK.turns[:, 0] == edges[-1], 1]
        if not after.size:
            break
        edges.append(int(rng.choice(after)))
    return np.array(edges)


@given(rngs(), st.integers(0, 8))
@settings(max_examples=20)
def test_integrating_turns_out_is_the_dense_posterior(
    rng: np.random.Generator, drives: int
) -> None:
    n, kinds, size = NETWORK.n_edges, 2 * len(KINDS), MODEL.kinds.size
    seen = [(route, rng.uniform(5, 60, route.size)) for route in (walk(rng) for _ in range(drives))]
    # all of it at once: roads, kinds and the deviations of turns
    total = n + kinds + size
    prior = np.zeros((total, total))
    prior[:n, :n] = MODEL.roads.belief.matrix
    prior[n:, n:] = np.diag(np.concatenate([np.full(kinds, 4.0), MODEL.own_variance]))
    every = np.zeros((size, total))
    every[np.arange(size), MODEL.edges] = 1
    every[np.arange(size), n + MODEL.kinds] = 1
    every[np.arange(size), n + kinds + np.arange(size)] = 1
    mean = np.concatenate([MODEL.roads.physics, np.zeros(kinds + size)])
    if seen:
        turns = np.concatenate([MODEL.turns_of(route) for route, _ in seen])
        rows, noise = every[turns], np.diag(MODEL.roads.noise_variance[MODEL.edges[turns]])
        gain = np.linalg.solve(rows @ prior @ rows.T + noise, rows @ prior).T
        mean = mean + gain @ (np.concatenate([cost for _, cost in seen]) - rows @ mean)
        prior = prior - gain @ rows @ prior
    found = MODEL.belief().condition(seen[:3]).condition(seen[3:])
    assert_allclose(found.mean(), every @ mean, rtol=1e-7, atol=1e-6)
    inner = (1 - found.trust)[:, None] * every[:, : n + kinds]
    variance = np.einsum("ij,jk,ik->i", inner, found.core.matrix, inner) + found.own_left
    assert_allclose(variance, np.einsum("ij,jk,ik->i", every, prior, every), rtol=1e-6, atol=1e-6)


@given(rngs())
@settings(max_examples=10)
def test_the_variance_of_a_trip_is_that_of_its_draws(rng: np.random.Generator) -> None:
    seen = [(route, rng.uniform(5, 60, route.size)) for route in (walk(rng) for _ in range(3))]
    belief, route = MODEL.belief().condition(seen), walk(rng)
    turns = MODEL.turns_of(route)
    mean, unknown, noise = belief.trip(route)
    draws = np.array([belief.sample(rng)[turns].sum() for _ in range(600)])
    assert abs(draws.mean() - mean) < 5 * np.sqrt(unknown / 600) + 1e-9
    assert abs(np.log(draws.var() / unknown)) < 0.35
    assert_allclose(noise, MODEL.roads.noise_variance[route].sum())


def test_draws_have_these_moments() -> None:
    rng = np.random.default_rng(0)
    belief = MODEL.belief()
    draws = np.array([belief.sample(rng) for _ in range(2000)])
    spread = np.sqrt(belief.own_left + belief.core.matrix.diagonal()[MODEL.edges] + 4.0)
    assert_allclose(draws.std(axis=0), spread, rtol=0.1)
    assert_allclose(draws.mean(axis=0), belief.mean(), atol=5 * spread.max() / np.sqrt(2000))


def test_kinds_are_seen_from_the_driver() -> None:
    kinds = turn_kinds(NETWORK)
    for number, (first, second) in enumerate(NETWORK.turns[:200]):
        before = np.diff(NETWORK.shape_of(int(first)), axis=0)[-1]
        after = np.diff(NETWORK.shape_of(int(second)), axis=0)[0]
        cross = before[0] * after[1] - before[1] * after[0]
        if kinds[number] == 1:
            assert cross > 0 or before @ after < 0  # or it leads back
        elif kinds[number] == 2:
            assert cross < 0 or before @ after < 0
        else:
            assert before @ after > 0
    assert (kinds[NETWORK.n_turns :] == 0).all()
    with pytest.raises(ValueError, match="own must be positive"):
        TurnModel(RoadModel(NETWORK), own=0.0)
