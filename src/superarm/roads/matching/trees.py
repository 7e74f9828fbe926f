"""Distances from an edge to those around it, remembered from one point to the next."""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.roads.matching.roads import Roads

MOST_ENTRIES = 16_000_000
"""How many entries are remembered at the most."""


class Trees(NamedTuple):
    """Shortest ways from the ends of edges, as far as they were needed.

    Attributes:
        start: where the tree of an edge begins in the arrays below, shape (n,).
        held: how many edges it holds; -1 if there is none yet.
        reach: how far it reaches.
        edge: edges that can be reached.
        distance: from the end of the source to their starts.
        before: place of the edge before it in the tree, -1 for those after the source.
        used: how many entries are filled, shape (1,).
        heap_key: room for searching, as are those below.
        heap_place: likewise.
        best: likewise, of every edge.
        settled: likewise, the search in which an edge was settled.
        search: number of searches so far, shape (1,).
    """

    start: Rows
    held: Rows
    reach: Vector
    edge: Rows
    distance: Vector
    before: Rows
    used: Rows
    heap_key: Vector
    heap_place: Rows
    heap_before: Rows
    best: Vector
    settled: Rows
    search: Rows


def no_trees(n_edges: int, n_turns: int, entries: int) -> Trees:
    """Return room for some entries."""
    return Trees(
        start=np.zeros(n_edges, np.intp),
        held=np.full(n_edges, -1, np.intp),
        reach=np.zeros(n_edges),
        edge=np.empty(entries, np.intp),
        distance=np.empty(entries),
        before=np.empty(entries, np.intp),
        used=np.zeros(1, np.intp),
        heap_key=np.empty(n_turns + 1),
        heap_place=np.empty(n_turns + 1, np.intp),
        heap_before=np.empty(n_turns + 1, np.intp),
        best=np.full(n_edges, np.inf),
        settled=np.zeros(n_edges, np.intp),
        search=np.zeros(1, np.intp),
    )


def larger(trees: Trees) -> Trees:
    """Return the same trees with room for twice as many entries."""
    return trees._replace(
        edge=np.concatenate([trees.edge, np.empty_like(trees.edge)]),
        distance=np.concatenate([trees.distance, np.empty_like(trees.distance)]),
        before=np.concatenate([trees.before, np.empty_like(trees.before)]),
    )


@compiled
def grown(  # noqa: C901, PLR0912, PLR0915 - one search with its heap
    roads: Roads, trees: Trees, source: int, reach: float
) -> bool:
    """Let the tree of an edge reach so far; say whether there was room for it."""
    if trees.held[source] >= 0 and trees.reach[source] >= reach:
        return True
    n_edges = trees.start.size
    base = trees.used[0]
    if base + n_edges > trees.edge.size:
        return False
    trees.search[0] += 1
    search = trees.search[0]
    keys, places, befores = trees.heap_key, trees.heap_place, trees.heap_before
    size, count = 0, 0
    touched = np.empty(64, np.intp)
    n_touched = 0
    parent, key, edge = -1, 0.0, source
    going = True
    while going:
        out = key if parent < 0 and count == 0 else key + roads.length[edge]
        for turn in range(roads.turn_start[edge], roads.turn_start[edge + 1]):
            head = roads.turn_to[turn]
            far = out + roads.turn_gap[turn]
            if far > reach or far >= trees.best[head] or trees.settled[head] == search:
                continue
            if trees.best[head] == np.inf:
                if n_touched == touched.size:
                    bigger = np.empty(2 * touched.size, np.intp)
                    bigger[:n_touched] = touched
                    touched = bigger
                touched[n_touched] = head
                n_touched += 1
            trees.best[head] = far
            place = size
            size += 1
            while place > 0 and keys[(place - 1) // 2] > far:
                up = (place - 1) // 2
                keys[place], places[place], befores[place] = keys[up], places[up], befores[up]
                place = up
            keys[place], places[place], befores[place] = far, head, parent
        going = False
        while size > 0:
            key, edge, parent = keys[0], places[0], befores[0]
            size -= 1
            last_key, last_place, last_before = keys[size], places[size], befores[size]
            place = 0
            while 2 * place + 1 < size:
                child = 2 * place + 1
                if child + 1 < size and keys[child + 1] < keys[child]:
                    child += 1
                if last_key <= keys[child]:
                    break
                keys[place], places[place] = keys[child], places[child]
                befores[place] = befores[child]
                place = child
            keys[place], places[place], befores[place] = last_key, last_place, last_before
            if trees.settled[edge] != search:
                going = True
                break
        if going:
            trees.settled[edge] = search
            trees.edge[base + count] = edge
            trees.distance[base + count] = key
            trees.before[base + count] = parent
            parent = count
            count += 1
    for i in range(n_touched):
        trees.best[touched[i]] = np.inf
    trees.start[source], trees.held[source], trees.reach[source] = base, count, reach
    trees.used[0] = base + count
    return True
