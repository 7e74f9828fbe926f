"""Shortest paths on arrays, compiled: Dijkstra with a binary heap, Bellman-Ford, reachability.

Graphs are compressed rows: the arcs leaving node u are ``heads[starts[u] : starts[u + 1]]``.
"""

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled


@compiled
def dijkstra(starts: Rows, heads: Rows, costs: Vector, source: int, target: int) -> Rows:
    """Return the last arc to every node on a cheapest path, -1 where none is known.

    Costs must not be negative. The search ends when the target is settled. A node is queued again
    instead of moved up, so that the heap may hold one entry per arc.
    """
    n_nodes = starts.size - 1
    distance = np.full(n_nodes, np.inf)
    arrival = np.full(n_nodes, -1, np.intp)
    settled = np.zeros(n_nodes, np.bool_)
    keys = np.empty(heads.size + 1)
    nodes = np.empty(heads.size + 1, np.intp)
    distance[source], keys[0], nodes[0], size = 0.0, 0.0, source, 1
    while size > 0:
        node, key = nodes[0], keys[0]
        size -= 1
        last_key, last_node = keys[size], nodes[size]
        place = 0
        while 2 * place + 1 < size:  # sift down
            child = 2 * place + 1
            if child + 1 < size and keys[child + 1] < keys[child]:
                child += 1
            if last_key <= keys[child]:
                break
            keys[place], nodes[place] = keys[child], nodes[child]
            place = child
        keys[place], nodes[place] = last_key, last_node
        if settled[node]:
            continue
        settled[node] = True
        if node == target:
            break
        for arc in range(starts[node], starts[node + 1]):
            head = heads[arc]
            reach = key + costs[arc]
            if reach < distance[head]:
                distance[head] = reach
                arrival[head] = arc
                place = size
                size += 1
                while place > 0 and keys[(place - 1) // 2] > reach:  # sift up
                    keys[place] = keys[(place - 1) // 2]
                    nodes[place] = nodes[(place - 1) // 2]
                    place = (place - 1) // 2
                keys[place], nodes[place] = reach, head
    return arrival


@compiled
def bellman_ford(  # noqa: PLR0913, PLR0917 - a graph, costs and what to do with them
    starts: Rows,
    heads: Rows,
    costs: Vector,
    source: int,
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]],
    tolerance: float,
) -> tuple[Rows, bool]:
    """Return the last arc to every node and whether a negative cycle was met.

    Only usable nodes are entered. A node improves only by more than the tolerance, so that cycles
    of cost zero do not count as negative by rounding.
    """
    n_nodes = starts.size - 1
    distance = np.full(n_nodes, np.inf)
    arrival = np.full(n_nodes, -1, np.intp)
    active = np.zeros(n_nodes, np.bool_)
    distance[source], active[source] = 0.0, True
    for _ in range(n_nodes):
        moved = np.zeros(n_nodes, np.bool_)
        any_moved = False
        for node in range(n_nodes):
            if not active[node]:
                continue
            for arc in range(starts[node], starts[node + 1]):
                head = heads[arc]
                reach = distance[node] + costs[arc]
                if usable[head] and reach < distance[head] - tolerance:
                    distance[head] = reach
                    arrival[head] = arc
                    moved[head] = True
                    any_moved = True
        if not any_moved:
            return arrival, False
        active = moved
    return arrival, True


@compiled
def reachable(starts: Rows, heads: Rows, source: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
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
