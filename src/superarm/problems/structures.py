"""Ready-made feasible sets: grids to cross, sides to pair, points to connect."""

from itertools import combinations, product

from superarm.oracles import Matchings, Paths, SpanningTrees


def grid_paths(width: int, height: int) -> Paths:
    """Return the simple paths from corner to corner of a grid; every street goes both ways.

    >>> grid_paths(2, 2).n_arms
    8
    """
    nodes = list(product(range(width), range(height)))
    number = {node: position for position, node in enumerate(nodes)}
    streets = [
        (number[x, y], number[x + dx, y + dy])
        for x, y in nodes
        for dx, dy in ((1, 0), (0, 1))
        if (x + dx, y + dy) in number
    ]
    return Paths(len(nodes), [*streets, *((b, a) for a, b in streets)], 0, len(nodes) - 1)


def complete_matchings(n_left: int, n_right: int) -> Matchings:
    """Return the matchings of two sides in which everybody may be paired with everybody.

    >>> complete_matchings(2, 3).n_arms
    6
    """
    return Matchings(n_left, n_right, list(product(range(n_left), range(n_right))))


def complete_trees(n_nodes: int) -> SpanningTrees:
    """Return the spanning trees of a complete graph.

    >>> complete_trees(4).n_arms
    6
    """
    return SpanningTrees(n_nodes, list(combinations(range(n_nodes), 2)))
