"""Shortest paths on arrays, compiled: Dijkstra with a binary heap, Bellman-Ford, reachability.

Graphs are compressed rows: the arcs leaving node u are ``heads[starts[u] : starts[u + 1]]``.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.pausing import pause

Marks: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]

ROUNDING = 4 * np.finfo(np.float64).eps
"""Bellman-Ford ignores improvements below this share of the absolute costs on the way."""

CANCELLED = 0.5 * np.finfo(np.float64).eps
"""A cycle whose costs add up to less than this share of their absolute values adds up to zero."""

_BETWEEN_PAUSES = 10_000
"""Nodes that are settled without a pause: one to five milliseconds."""


def dijkstra(  # noqa: PLR0913, PLR0917 - a graph, costs and where to begin and to end
    starts: Rows, heads: Rows, costs: Vector, source: int, target: int, limit: float
) -> tuple[Rows, Vector]:
    """Return the last arc to every node on a cheapest path, -1 where none is known, and its cost.

    Costs must not be negative. The search ends when the target is settled (none is, if it is -1),
    or nothing is left within the limit; what is not settled then has an upper bound. A node is
    queued again instead of moved up, so that the heap may hold one entry per arc. Others go on in
    between (`superarm.pausing`).
    """
    now = _Frontier.at(starts, heads, source)
    while now.size > 0:
        now.size, visited = _settle(
            starts, heads, costs, target, limit, now.distance, now.arrival, now.settled, now.keys,
            now.nodes, now.size, _BETWEEN_PAUSES,
        )  # fmt: skip
        pause(visited)
    return now.arrival, now.distance


def dijkstra_rationed(  # noqa: PLR0913, PLR0917 - a graph, costs, and what is used up
    starts: Rows, heads: Rows, costs: Vector, used: Vector, source: int, most: float
) -> tuple[Rows, Vector]:
    """Return the same of the cheapest paths on which never more than `most` is used up.

    Cheapest paths that use more are not gone on with; no others are looked for instead.

    Args:
        starts: of the graph.
        heads: of the graph.
        costs: of arcs, not negative.
        used: on arcs, of any sign.
        source: where to begin.
        most: may be used up at any moment.
    """
    now, spent = _Frontier.at(starts, heads, source), np.zeros(starts.size - 1)
    while now.size > 0:
        now.size, visited = _settle_rationed(
            starts, heads, costs, used, most, spent, now.distance, now.arrival, now.settled,
            now.keys, now.nodes, now.size, _BETWEEN_PAUSES,
        )  # fmt: skip
        pause(visited)
    cut_off = ~now.settled | (spent > most)
    now.distance[cut_off], now.arrival[cut_off] = np.inf, -1
    return now.arrival, now.distance


@dataclass(eq=False)
class _Frontier:
    """How far a search has come: what is known of every node, and a heap of those to settle.

    Attributes:
        distance: the least cost known.
        arrival: the last arc on the way that costs so much.
        settled: whether no less is possible.
        keys: costs in the heap.
        nodes: whose they are.
        size: of the heap; zero when the search is over.
    """

    distance: Vector
    arrival: Rows
    settled: Marks
    keys: Vector
    nodes: Rows
    size: int

    @classmethod
    def at(cls, starts: Rows, heads: Rows, source: int) -> "_Frontier":
        """Return the frontier before the first step."""
        n_nodes, room = starts.size - 1, heads.size + 1
        frontier = cls(
            np.full(n_nodes, np.inf),
            np.full(n_nodes, -1, np.intp),
            np.zeros(n_nodes, np.bool_),
            np.empty(room),
            np.empty(room, np.intp),
            1,
        )
        frontier.distance[source] = 0.0
        frontier.keys[0], frontier.nodes[0] = 0.0, source
        return frontier


@compiled
def _settle(  # noqa: PLR0913, PLR0917 - a graph, and how far the search has come
    starts: Rows,
    heads: Rows,
    costs: Vector,
    target: int,
    limit: float,
    distance: Vector,
    arrival: Rows,
    settled: Marks,
    keys: Vector,
    nodes: Rows,
    size: int,
    most: int,
) -> tuple[int, int]:
    """Settle at most so many nodes; return the size of the heap, and how many were settled."""
    count = 0
    while size > 0 and count < most:
        # the heap's least key is the cost of its node, unless the node was settled before
        node, key = nodes[0], keys[0]
        if key > limit:
            return 0, count
        size = _without_first(keys, nodes, size)
        if settled[node]:
            continue
        settled[node] = True
        count += 1
        if node == target:
            return 0, count
        for arc in range(starts[node], starts[node + 1]):
            head = heads[arc]
            reach = key + costs[arc]
            if reach < distance[head]:
                distance[head] = reach
                arrival[head] = arc
                size = _with_one(keys, nodes, size, reach, head)
    return size, count


@compiled
def _settle_rationed(  # noqa: PLR0913, PLR0917 - a graph, and how far the search has come
    starts: Rows,
    heads: Rows,
    costs: Vector,
    used: Vector,
    most_used: float,
    spent: Vector,
    distance: Vector,
    arrival: Rows,
    settled: Marks,
    keys: Vector,
    nodes: Rows,
    size: int,
    most: int,
) -> tuple[int, int]:
    """Settle at most so many nodes; return the size of the heap, and how many were settled."""
    count = 0
    while size > 0 and count < most:
        node, key = nodes[0], keys[0]
        size = _without_first(keys, nodes, size)
        if settled[node]:
            continue
        settled[node] = True
        count += 1
        if spent[node] > most_used:  # a cheapest path that uses too much ends here
            continue
        for arc in range(starts[node], starts[node + 1]):
            head = heads[arc]
            reach = key + costs[arc]
            if reach < distance[head]:
                distance[head] = reach
                arrival[head] = arc
                spent[head] = spent[node] + used[arc]
                size = _with_one(keys, nodes, size, reach, head)
    return size, count


@compiled
def _without_first(keys: Vector, nodes: Rows, size: int) -> int:
    """Take the least entry off a heap of so many; return how many are left."""
    size -= 1
    last_key, last_node = keys[size], nodes[size]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if last_key <= keys[child]:
            break
        keys[place], nodes[place] = keys[child], nodes[child]
        place = child
    keys[place], nodes[place] = last_key, last_node
    return size


@compiled
def _with_one(keys: Vector, nodes: Rows, size: int, key: float, node: int) -> int:
    """Put an entry on a heap of so many; return how many there are then."""
    place = size
    while place > 0 and keys[(place - 1) // 2] > key:
        keys[place] = keys[(place - 1) // 2]
        nodes[place] = nodes[(place - 1) // 2]
        place = (place - 1) // 2
    keys[place], nodes[place] = key, node
    return size + 1


@compiled
def bellman_ford(
    starts: Rows,
    heads: Rows,
    costs: Vector,
    source: int,
    usable: Marks,
) -> tuple[Rows, bool]:
    """Return the last arc to every node and whether a negative cycle was met.

    Only usable nodes are entered. A node improves only by more than rounding: `ROUNDING` times the
    absolute costs on the way to it, so that no cost elsewhere matters. A cycle of last arcs is
    negative if its costs, added up without rounding, are; then the search ends. Otherwise its costs
    cancel, and the search begins again with four times the tolerance.
    """
    rounding = ROUNDING
    while True:
        arrival, parent, cyclic = _relaxed(starts, heads, costs, source, usable, rounding)
        if not cyclic:
            return arrival, False
        if _negative_cycle(parent, arrival, costs):
            return arrival, True
        rounding *= 4


@compiled
def _relaxed(  # noqa: PLR0913, PLR0917 - a graph, costs and what to do with them
    starts: Rows,
    heads: Rows,
    costs: Vector,
    source: int,
    usable: Marks,
    rounding: float,
) -> tuple[Rows, Rows, bool]:
    """Return last arcs and the nodes they come from, and whether these lead around anywhere."""
    n_nodes = starts.size - 1
    distance = np.full(n_nodes, np.inf)
    mass = np.zeros(n_nodes)  # absolute costs on the way
    arrival = np.full(n_nodes, -1, np.intp)
    parent = np.full(n_nodes, -1, np.intp)
    active = np.zeros(n_nodes, np.bool_)
    distance[source], active[source] = 0.0, True
    while True:
        moved = np.zeros(n_nodes, np.bool_)
        any_moved = False
        for node in range(n_nodes):
            if not active[node]:
                continue
            for arc in range(starts[node], starts[node + 1]):
                head = heads[arc]
                reach = distance[node] + costs[arc]
                weight = mass[node] + abs(costs[arc])
                if usable[head] and reach < distance[head] - rounding * max(weight, mass[head]):
                    distance[head], mass[head] = reach, weight
                    arrival[head], parent[head] = arc, node
                    moved[head] = True
                    any_moved = True
        if not any_moved:
            return arrival, parent, False
        if _on_cycle(parent) >= 0:
            return arrival, parent, True
        active = moved


@compiled
def _on_cycle(parent: Rows) -> int:
    """Return a node from which following parents leads around, or -1."""
    visit = np.zeros(parent.size, np.intp)
    for begin in range(parent.size):
        node = begin
        while node >= 0 and visit[node] == 0:
            visit[node] = begin + 1
            node = parent[node]
        if node >= 0 and visit[node] == begin + 1:
            return int(node)
    return -1


@compiled
def _negative_cycle(parent: Rows, arrival: Rows, costs: Vector) -> bool:
    """Say whether the costs of a cycle of parents, added up with compensation, are negative."""
    first = _on_cycle(parent)
    node, total, lost, mass = first, 0.0, 0.0, 0.0
    while True:
        cost = costs[arrival[node]]
        added = total + cost
        lost += (total - added) + cost if abs(total) >= abs(cost) else (cost - added) + total
        total, mass = added, mass + abs(cost)
        node = parent[node]
        if node == first:
            break
    # every cost was rounded before it came here, by half a unit in its last place
    return bool(total + lost < -CANCELLED * mass)


@compiled
def reachable(starts: Rows, heads: Rows, source: int) -> Marks:
    """Return which nodes can be reached."""
    seen = np.zeros(starts.size - 1, np.bool_)
    stack = np.empty(starts.size - 1, np.intp)
    seen[source], stack[0], size = True, source, 1
    while size > 0:
        size -= 1
        node = stack[size]
        for arc in range(starts[node], starts[node + 1]):
            if not seen[heads[arc]]:
                seen[heads[arc]] = True
                stack[size] = heads[arc]
                size += 1
    return seen
