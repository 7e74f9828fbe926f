"""Every oracle finds what enumeration finds, with ties, zeros and negative values."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import finite, seeds
from superarm import CapacityError, InfeasibleError, NegativeCycleError, NumericalError
from superarm.arrays import Vector
from superarm.oracles import (
    Assignments,
    BellmanFord,
    DensityGreedy,
    Dijkstra,
    Exhaustive,
    Hungarian,
    Knapsack,
    Knapsacks,
    Kruskal,
    Matchings,
    Paths,
    SpanningTrees,
    Subsets,
    SubsetsUpTo,
    TopK,
)

# few distinct values make ties and zeros common
values = st.one_of(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0]), finite(-3, 3))
costs = st.one_of(st.sampled_from([-2.0, -1.0, 0.0]), finite(-3, 0))


def indices_of(draw: Any, size: int, of: st.SearchStrategy[float] = values) -> Vector:
    return np.array(draw(st.lists(of, min_size=size, max_size=size)), dtype=np.float64)


def assert_best(oracle: Any, feasible: Any, indices: Vector) -> None:
    chosen = oracle.select(feasible, indices)
    best = Exhaustive().select(feasible, indices)
    assert feasible.contains(chosen)
    assert chosen.size <= feasible.max_size
    assert_allclose(indices[chosen].sum(), indices[best].sum(), atol=1e-8)


@given(st.data(), st.integers(1, 7), st.booleans())
def test_top_k_is_enumeration(data: Any, n: int, up_to: bool) -> None:
    k = data.draw(st.integers(1, n))
    feasible = SubsetsUpTo(n, k) if up_to else Subsets(n, k)
    assert_best(TopK(), feasible, indices_of(data.draw, n))


def test_top_k_breaks_ties_by_position_and_orders_by_index() -> None:
    indices = np.array([1.0, 3.0, 1.0, 2.0, 1.0])
    assert TopK().select(Subsets(5, 4), indices).tolist() == [1, 3, 0, 2]
    assert TopK().select(SubsetsUpTo(5, 9), -indices).tolist() == []


@given(st.data(), st.integers(1, 7), st.booleans())
def test_knapsack_is_enumeration(data: Any, n: int, whole: bool) -> None:
    weight = st.integers(0, 6).map(float) if whole else finite(0, 3)
    weights = data.draw(st.lists(weight, min_size=n, max_size=n))
    budget = data.draw(st.one_of(finite(0, 10), st.just(sum(weights[: n // 2]))))
    assert_best(Knapsack(), Knapsacks(weights, budget), indices_of(data.draw, n))


@given(st.data(), st.integers(1, 7))
def test_knapsack_as_a_program_is_the_table(data: Any, n: int) -> None:
    weights = np.array(data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))) / 10
    budget = data.draw(st.integers(1, 20))
    indices = indices_of(data.draw, n)
    table = Knapsack().select(Knapsacks(weights * 10, budget), indices)
    program = Knapsack().select(Knapsacks(weights, budget / 10), indices)
    assert_allclose(indices[table].sum(), indices[program].sum(), atol=1e-9)


def test_knapsack_switches_to_the_program_for_huge_budgets() -> None:
    rng = np.random.default_rng(0)
    weights, indices = rng.integers(1, 10**9, size=12), rng.random(12)
    assert_best(Knapsack(), Knapsacks(weights, 2 * 10**9), indices)


def test_a_budget_of_three_tenths_holds_three_tenths() -> None:
    feasible = Knapsacks([0.1, 0.1, 0.1], 0.3)
    assert Knapsack().select(feasible, np.ones(3)).size == 3
    assert feasible.max_size == 3


@given(st.data(), st.integers(1, 7))
def test_greedy_knapsack_keeps_its_ratio(data: Any, n: int) -> None:
    weights = data.draw(st.lists(finite(0, 3), min_size=n, max_size=n))
    feasible = Knapsacks(weights, data.draw(finite(0, 6)))
    indices = indices_of(data.draw, n)
    chosen = DensityGreedy().select(feasible, indices)
    best = indices[Exhaustive().select(feasible, indices)].sum()
    assert feasible.contains(chosen)
    assert indices[chosen].sum() >= DensityGreedy.approximation_ratio * best - 1e-12


@st.composite
def some_pairs(draw: Any) -> tuple[int, int, list[tuple[int, int]]]:
    left, right = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    every = [(i, j) for i in range(left) for j in range(right)]
    return left, right, draw(st.lists(st.sampled_from(every), unique=True, max_size=9))


@given(st.data(), some_pairs())
def test_hungarian_is_enumeration(
    data: Any, structure: tuple[int, int, list[tuple[int, int]]]
) -> None:
    assert_best(Hungarian(), Matchings(*structure), indices_of(data.draw, len(structure[2])))


@given(st.data(), some_pairs())
def test_assignments_cover_the_left_side(
    data: Any, structure: tuple[int, int, list[tuple[int, int]]]
) -> None:
    left, _, pairs = structure
    covering = any(super_arm.size == left for super_arm in Matchings(*structure).super_arms())
    if not covering:
        with pytest.raises(InfeasibleError, match="no assignment covers"):
            Assignments(*structure)
        return
    assert_best(Hungarian(), Assignments(*structure), indices_of(data.draw, len(pairs)))


@st.composite
def connected_graphs(draw: Any) -> SpanningTrees:
    n = draw(st.integers(2, 5))
    tree = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    every = [(i, j) for i in range(n) for j in range(n) if i != j]
    return SpanningTrees(n, [*tree, *draw(st.lists(st.sampled_from(every), max_size=5))])


@given(st.data(), connected_graphs())
def test_kruskal_is_enumeration(data: Any, feasible: SpanningTrees) -> None:
    assert_best(Kruskal(), feasible, indices_of(data.draw, feasible.n_arms))


@st.composite
def graphs_with_a_path(draw: Any) -> Paths:
    n = draw(st.integers(2, 6))
    nodes = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(nodes, nodes), max_size=12))
    way = draw(st.permutations(range(n)).map(lambda order: order[: max(2, n // 2)]))
    arcs += list(pairwise(way))
    return Paths(n, draw(st.permutations(arcs)), way[0], way[-1])


@st.composite
def line_graphs(draw: Any) -> Paths:
    n = draw(st.integers(1, 6))
    nodes = st.integers(0, n - 1)
    turns = draw(st.lists(st.tuples(nodes, nodes), unique=True, max_size=12))
    way = draw(st.permutations(range(n)).map(lambda order: order[: max(1, n // 2)]))
    turns += [turn for turn in pairwise(way) if turn not in turns]
    return Paths.on_turns(n, draw(st.permutations(turns)), way[0], way[-1])


@given(st.data(), st.one_of(graphs_with_a_path(), line_graphs()))
def test_dijkstra_is_enumeration(data: Any, feasible: Paths) -> None:
    assert_best(Dijkstra(), feasible, indices_of(data.draw, feasible.n_arms, costs))


@given(st.data(), st.one_of(graphs_with_a_path(), line_graphs()))
def test_bellman_ford_is_enumeration_or_a_negative_cycle(data: Any, feasible: Paths) -> None:
    indices = indices_of(data.draw, feasible.n_arms)
    try:
        BellmanFord().select(feasible, indices)
    except NegativeCycleError:
        assert gaining_cycle(feasible, indices)
    else:
        assert_best(BellmanFord(), feasible, indices)


def gaining_cycle(feasible: Paths, indices: Vector) -> bool:
    """Whether a cycle of positive index lies between source and target, by closed walks."""
    n = feasible.n_nodes
    longest = np.full((n, n), -np.inf)
    for (tail, head), arm in zip(feasible.arcs, feasible.arm_of_arc, strict=True):
        longest[tail, head] = max(longest[tail, head], indices[arm])
    for middle in range(n):
        longest = np.maximum(longest, longest[:, [middle]] + longest[[middle], :])
    on_the_way = np.isfinite(longest[feasible.source]) | (np.arange(n) == feasible.source)
    on_the_way &= np.isfinite(longest[:, feasible.target]) | (np.arange(n) == feasible.target)
    return bool((np.diag(longest)[on_the_way] > 0).any())


@given(st.data(), graphs_with_a_path())
def test_bellman_ford_survives_costs_made_of_potentials(data: Any, feasible: Paths) -> None:
    """Costs that telescope make every cycle zero, up to rounding."""
    heights = indices_of(data.draw, feasible.n_nodes)
    climb = heights[feasible.arcs[:, 1]] - heights[feasible.arcs[:, 0]]
    path = BellmanFord().select(feasible, -climb)
    total = heights[feasible.target] - heights[feasible.source]
    assert_allclose(climb[path].sum(), total, atol=1e-9)


def test_a_cycle_off_the_way_does_not_matter() -> None:
    # 0 -> 1, and a gaining cycle 2 <-> 3 that can be entered but not left
    feasible = Paths(4, [(0, 1), (0, 2), (2, 3), (3, 2)], 0, 1)
    assert BellmanFord().select(feasible, np.array([-1.0, 5.0, 5.0, 5.0])).tolist() == [0]


@given(st.data(), line_graphs())
def test_a_line_graph_path_charges_the_start_and_every_node(data: Any, feasible: Paths) -> None:
    indices = indices_of(data.draw, feasible.n_arms, costs)
    path = Dijkstra().select(feasible, indices)
    assert path[0] == feasible.arm_of_arc[-1]
    assert path[-1] == feasible.target


def test_a_line_graph_whose_start_is_its_goal_plays_one_arm() -> None:
    feasible = Paths.on_turns(3, [(0, 1), (1, 0)], 1, 1)
    assert Dijkstra().select(feasible, -np.ones(3)).tolist() == [1]
    assert feasible.contains(np.array([1]))
    assert not feasible.contains(np.array([0]))


def test_paths_know_what_they_contain() -> None:
    plain = Paths(4, [(0, 1), (1, 2), (2, 3), (1, 3), (2, 1)], 0, 3)
    assert plain.contains(np.array([0, 3]))
    for wrong in ([], [0], [3], [0, 2], [3, 0], [0, 1, 4, 3], [0, 0, 3], [9]):
        assert not plain.contains(np.array(wrong, dtype=np.intp)), wrong
    line = Paths.on_turns(4, [(0, 1), (1, 2), (2, 3), (0, 2)], 0, 3)
    assert line.contains(np.array([0, 2, 3]))
    for wrong in ([2, 3], [0, 3], [0, 1, 3], [0, 1, 2], [3, 2, 0]):
        assert not line.contains(np.array(wrong)), wrong


@given(st.data(), line_graphs())
def test_closing_turns_is_building_without_them(data: Any, feasible: Paths) -> None:
    n_turns = feasible.arcs.shape[0] - 1
    closed = data.draw(st.lists(st.integers(0, max(n_turns - 1, 0)), unique=True))
    closed = [turn for turn in closed if turn < n_turns]
    start = int(feasible.arm_of_arc[-1])
    remaining = [tuple(arc) for i, arc in enumerate(feasible.arcs[:-1].tolist()) if i not in closed]
    indices = indices_of(data.draw, feasible.n_arms, costs)
    try:
        rebuilt = Paths.on_turns(feasible.n_arms, remaining, start, feasible.target)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            feasible.without_arcs(closed)
        return
    left = Dijkstra().select(feasible.without_arcs(closed), indices)
    right = Dijkstra().select(rebuilt, indices)
    assert_allclose(indices[left].sum(), indices[right].sum(), atol=1e-12)


@given(st.data(), st.one_of(graphs_with_a_path(), line_graphs()))
def test_taking_rows_of_paths_closes_the_others(data: Any, feasible: Paths) -> None:
    n = feasible.n_arms
    rows = np.sort(data.draw(st.lists(st.integers(0, n - 1), unique=True))).astype(np.intp)
    inside = [p for p in feasible.super_arms() if np.isin(p, rows).all()]
    if not inside:
        with pytest.raises(InfeasibleError):
            feasible.take(rows)
        return
    taken = {tuple(rows[p].tolist()) for p in feasible.take(rows).super_arms()}
    assert taken == {tuple(p.tolist()) for p in inside}


@given(st.data(), st.integers(2, 6))
def test_taking_rows_of_other_sets_keeps_the_sets_inside(data: Any, n: int) -> None:
    rows = np.sort(data.draw(st.lists(st.integers(0, n - 1), unique=True, min_size=2)))
    weights = np.arange(1.0, n + 1)
    pairs = [(i, i % 2) for i in range(n)]
    for whole in (Subsets(n, 2), SubsetsUpTo(n, 2), Knapsacks(weights, 5), Matchings(n, 2, pairs)):
        everything: Any = whole
        taken = {tuple(sorted(rows[s].tolist())) for s in everything.take(rows).super_arms()}
        inside = {
            tuple(sorted(s.tolist())) for s in everything.super_arms() if np.isin(s, rows).all()
        }
        assert taken == inside


@pytest.mark.slow
@given(st.integers(0, 10**6), st.booleans())
def test_dijkstra_is_bellman_ford_on_larger_graphs(seed: int, line: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    arcs = rng.integers(n, size=(500, 2))
    try:
        feasible = (
            Paths.on_turns(n, np.unique(arcs, axis=0), 0, n - 1)
            if line
            else Paths(n, arcs, 0, n - 1)
        )
    except InfeasibleError:
        assume(condition=False)
    indices = -rng.exponential(size=feasible.n_arms) * (rng.random(feasible.n_arms) < 0.8)
    left = Dijkstra().select(feasible, indices)
    right = BellmanFord().select(feasible, indices)
    assert feasible.contains(left)
    assert_allclose(indices[left].sum(), indices[right].sum(), atol=1e-9)


@pytest.mark.parametrize(
    ("oracle", "feasible"),
    [
        (TopK(), Subsets(3, 2)),
        (Knapsack(), Knapsacks([1, 2, 3], 4)),
        (DensityGreedy(), Knapsacks([1, 2, 3], 4)),
        (Hungarian(), Matchings(2, 2, [(0, 0), (1, 1), (0, 1)])),
        (Kruskal(), SpanningTrees(3, [(0, 1), (1, 2), (0, 2)])),
        (Dijkstra(), Paths(3, [(0, 1), (1, 2), (0, 2)], 0, 2)),
        (BellmanFord(), Paths(3, [(0, 1), (1, 2), (0, 2)], 0, 2)),
        (Exhaustive(), Subsets(3, 2)),
    ],
)
def test_indices_that_do_not_fit_or_are_not_finite_are_refused(oracle: Any, feasible: Any) -> None:
    with pytest.raises(ValueError, match="speaks of 3 arms, but there are 4 indices"):
        oracle.select(feasible, np.zeros(4))
    for bad in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="indices must be finite"):
            oracle.select(feasible, [-1.0, bad, -1.0])


def test_costs_that_add_up_to_infinity_are_an_error() -> None:
    feasible: Any = Paths(3, [(1, 2), (2, 0), (0, 1)], 0, 2)
    oracle: Any
    for oracle in (Dijkstra(), BellmanFord()):
        with pytest.raises(NumericalError, match="add up to infinity"):
            oracle.select(feasible, np.full(3, -np.finfo(float).max))


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-3, 1e6]))
def test_the_unit_of_weights_does_not_matter(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    weights, indices = rng.random(12), rng.random(12)
    left = Knapsack().select(Knapsacks(weights, 3.0), indices)
    right = Knapsack().select(Knapsacks(weights * unit, 3.0 * unit), indices)
    assert_allclose(indices[left].sum(), indices[right].sum(), atol=1e-8)


def test_subsets_larger_than_the_round_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="5 arms must be chosen but the round offers 3"):
        Subsets(3, 5)
    for make in (Subsets, SubsetsUpTo):
        with pytest.raises(ValueError, match="k must be at least 1"):
            make(3, 0)
        half: Any = 2.5
        with pytest.raises(ValueError, match="k must be a whole number, got 2.5"):
            make(5, half)


def test_bad_knapsacks_are_refused() -> None:
    with pytest.raises(ValueError, match="weights must not be negative"):
        Knapsacks([-1.0], 1.0)
    with pytest.raises(ValueError, match="budget must be finite"):
        Knapsacks([1.0], -1.0)
    with pytest.raises(ValueError, match="weights must be finite"):
        Knapsacks([math.nan], 1.0)


def test_bad_matchings_are_refused() -> None:
    with pytest.raises(ValueError, match="same pair twice"):
        Matchings(2, 2, [(0, 0), (0, 0)])
    with pytest.raises(ValueError, match=r"pairs\[1\] = \(2, 0\) is outside"):
        Matchings(2, 2, [(0, 0), (2, 0)])
    with pytest.raises(ValueError, match=r"shape \(m, 2\)"):
        Matchings(2, 2, [(0, 0, 0)])
    with pytest.raises(ValueError, match="must be integers"):
        Matchings(2, 2, [(0.5, 0.0)])


def test_bad_trees_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="falls into 2 pieces"):
        SpanningTrees(3, [(0, 1)])
    with pytest.raises(ValueError, match="joins a node with itself"):
        SpanningTrees(2, [(0, 1), (1, 1)])


def test_bad_paths_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="no path leads from 0 to 2"):
        Paths(3, [(0, 1), (2, 1)], 0, 2)
    with pytest.raises(InfeasibleError, match="no path leads from 0 to 1"):
        Paths.on_turns(2, [(1, 0)], 0, 1)
    with pytest.raises(ValueError, match="source must be a node from 0 to 2, got 3"):
        Paths(3, [(0, 1)], 3, 1)
    with pytest.raises(ValueError, match="source and target are both node 1"):
        Paths(3, [(0, 1)], 1, 1)
    with pytest.raises(ValueError, match="goal must be a node"):
        Paths.on_turns(2, [(1, 0)], 0, 2)
    with pytest.raises(ValueError, match="closed holds position 1; expected 0 to 0"):
        Paths.on_turns(2, [(0, 1)], 0, 1).without_arcs([1])
    with pytest.raises(ValueError, match="an arc is an arm"):
        Paths(2, [(0, 1)], 0, 1).without_arcs([0])


def test_positive_indices_and_negative_cycles_are_named() -> None:
    feasible = Paths(3, [(0, 1), (1, 0), (1, 2)], 0, 2)
    with pytest.raises(ValueError, match="1 of 3 indices are positive.*Rectified"):
        Dijkstra().select(feasible, np.array([-1.0, 2.0, -1.0]))
    with pytest.raises(NegativeCycleError, match="negative cost"):
        BellmanFord().select(feasible, np.array([-1.0, 2.0, -1.0]))


def test_enumeration_has_a_limit() -> None:
    with pytest.raises(CapacityError, match="more than 10 super arms"):
        Exhaustive(limit=10).select(Subsets(20, 5), np.zeros(20))


class Nothing:
    n_arms, max_size = 1, 1

    def contains(self, super_arm: Any) -> bool:
        del super_arm
        return False

    def super_arms(self) -> Any:
        return iter(())


def test_enumeration_of_nothing_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="holds no super arm"):
        Exhaustive().select(Nothing(), np.zeros(1))


# ---- Bellman-Ford, exactly


def test_a_cycle_that_gains_hardly_anything_is_still_found() -> None:
    paths = Paths(4, [(0, 1), (1, 2), (2, 1), (2, 3)], 0, 3)
    with pytest.raises(NegativeCycleError, match="a cycle with a positive sum"):
        BellmanFord().select(paths, -np.array([1, 1, -1 - 1e-12, 1]))


def test_a_huge_cost_elsewhere_does_not_matter() -> None:
    paths = Paths(4, [(0, 3), (0, 1), (1, 3), (0, 2)], 0, 3)
    costs = np.array([0.7, 0.3, 0.3, 1e11])
    assert BellmanFord().select(paths, -costs).tolist() == [1, 2]


@given(st.data(), st.integers(3, 7), seeds)
def test_bellman_ford_is_enumeration_however_costs_are_scaled(
    data: Any, n_nodes: int, seed: int
) -> None:
    """Potentials make costs of either sign without negative cycles; cycles may cancel exactly."""
    rng = np.random.default_rng(seed)
    arcs = [(a, b) for a in range(n_nodes) for b in range(n_nodes) if a != b]
    arcs = [arc for arc in arcs if rng.random() < 0.6]
    try:
        paths = Paths(n_nodes, arcs, 0, n_nodes - 1)
    except InfeasibleError:
        return
    scale = 10.0 ** data.draw(st.integers(-9, 9))
    potential = rng.standard_normal(n_nodes) * 10.0 ** rng.integers(-3, 4, n_nodes)
    lost = np.where(rng.random(len(arcs)) < 0.4, 0.0, rng.random(len(arcs)))
    heads, tails = np.array(arcs)[:, 1], np.array(arcs)[:, 0]
    costs = scale * (lost + potential[heads] - potential[tails])
    found = BellmanFord().select(paths, -costs)
    best = min(math.fsum(costs[path]) for path in paths.super_arms())
    # telescoping costs are rounded as they are given, each to a half unit in its last place
    rounding = 16 * n_nodes**2 * np.finfo(float).eps * np.abs(costs).max()
    assert math.fsum(costs[found]) <= best + rounding


@pytest.mark.parametrize(
    ("oracle", "feasible", "advice"),
    [
        (Dijkstra(), Subsets(4, 2), "Dijkstra serves Paths, not Subsets; use TopK"),
        (TopK(), Paths(2, [(0, 1)], 0, 1), "serves Subsets and SubsetsUpTo, not Paths; use Dijk"),
        (Kruskal(), Subsets(4, 2), "Kruskal serves SpanningTrees, not Subsets"),
        (Hungarian(), Subsets(4, 2), "Hungarian serves Matchings, not Subsets"),
        (Knapsack(), Subsets(4, 2), "Knapsack serves Knapsacks, not Subsets"),
    ],
)
def test_an_oracle_of_other_sets_says_which_one_to_take(
    oracle: Any, feasible: Any, advice: str
) -> None:
    with pytest.raises(TypeError, match=advice):
        oracle.select(feasible, -np.ones(feasible.n_arms))


def test_oracles_do_not_write_to_the_indices_they_read() -> None:
    indices = np.array([3.0, 1.0, 2.0])
    TopK().select(Subsets(3, 2), indices)
    assert indices.flags.writeable
    assert indices.tolist() == [3.0, 1.0, 2.0]


@given(seeds, st.sampled_from([10, 300, 2000]))
def test_long_cycles_whose_costs_cancel_are_no_gain(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    up = rng.random(length // 2)
    around = np.concatenate([up, -rng.permutation(up)])
    arcs = [(i, (i + 1) % length) for i in range(length)] + [(length // 2, length)]
    paths = Paths(length + 1, arcs, 0, length)
    chosen = BellmanFord().select(paths, -np.append(around, 1.0))
    assert chosen.tolist() == [*range(length // 2), length]


@given(seeds, st.integers(3, 30))
def test_other_ends_of_a_line_graph_are_another_line_graph(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    ring = np.column_stack([np.arange(n), (np.arange(n) + 1) % n])
    turns = np.concatenate([ring, rng.integers(n, size=(2 * n, 2))])
    costs = rng.random(n)
    first = Paths.on_turns(n, turns, 0, 1)
    start, goal = (int(e) for e in rng.integers(n, size=2))
    moved, fresh = first.between(start, goal), Paths.on_turns(n, turns, start, goal)
    one, other = (Dijkstra().select(paths, -costs) for paths in (moved, fresh))
    assert one.tolist() == other.tolist()
    assert moved.contains(one)
    assert first.arm_of_arc[-1] == 0  # the first one is as it was
    again = moved.between(0, 1)
    assert Dijkstra().select(again, -costs).tolist() == Dijkstra().select(first, -costs).tolist()


def test_other_ends_must_be_nodes_of_a_line_graph() -> None:
    plain = Paths(3, [(0, 1), (1, 2)], 0, 2)
    with pytest.raises(ValueError, match="plain graph"):
        plain.between(0, 1)
    line = Paths.on_turns(3, [(0, 1), (1, 2)], 0, 2)
    with pytest.raises(ValueError, match="goal must be a node"):
        line.between(0, 3)
    with pytest.raises(NumericalError):
        Dijkstra().select(line.between(2, 0), np.zeros(3))
