"""Turns between the edges of OpenStreetMap ways: all that are not forbidden, by whom."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from superarm.arrays import Pairs
from superarm.roads.network.access import FOR_CARS, FOR_TRUCKS, Codes
from superarm.roads.network.formats.osm_tags import Forbidden, Way


class Joined(Protocol):
    """A directed piece of a way."""

    @property
    def way(self) -> Way:
        """Whose it is."""
        ...

    @property
    def nodes(self) -> tuple[int, ...]:
        """In driving order."""
        ...


def turns_of(
    edges: Sequence[Joined], forbidden: Sequence[Forbidden], barriers: Collection[int]
) -> tuple[Pairs, Codes]:
    """Return pairs of edges between which somebody may go, and bits of who.

    Vehicles turn round at dead ends only.

    Args:
        edges: pieces of ways.
        forbidden: restrictions.
        barriers: nodes that nobody passes.
    """
    leaving: dict[int, list[int]] = defaultdict(list)
    ways_at: dict[int, set[int]] = defaultdict(set)
    for number, edge in enumerate(edges):
        leaving[edge.nodes[0]].append(number)
        for end, beside in ((0, 1), (-1, -2)):
            ways_at[edge.nodes[end]].add(edge.nodes[beside])
    rules: dict[tuple[int, int], list[Forbidden]] = defaultdict(list)
    for rule in forbidden:
        rules[rule.source, rule.via].append(rule)
    for key, some in rules.items():  # an only way that is not there leaves no way at all
        there = {edges[number].way.id for number in leaving[key[1]]}
        rules[key] = [rule for rule in some if not rule.only or rule.target in there]
    pairs, bits = [], []
    for number, edge in enumerate(edges):
        node = edge.nodes[-1]
        back = edge.nodes[-2]
        is_end = len(ways_at[node]) == 1 or node in barriers
        for follower in leaving[node]:
            turns_round = edges[follower].nodes[1] == back
            if turns_round != is_end and (turns_round or node in barriers):
                continue
            some = [rule for rule in rules.get((edge.way.id, node), ()) if not rule.round]
            who = _who(some, edges[follower].way.id)
            if turns_round and is_end:
                who = FOR_CARS | FOR_TRUCKS  # there is no other way out
            if who:
                pairs.append((number, follower))
                bits.append(who)
    turns = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return turns, np.array(bits, dtype=np.uint8)


def _who(rules: Sequence[Forbidden], target: int) -> int:
    """Return the bits of those who may go to a way."""
    who = FOR_CARS | FOR_TRUCKS
    for rule in rules:
        if not rule.only and rule.target == target:
            who &= ~rule.bits
    for bit in (FOR_CARS, FOR_TRUCKS):
        only = {rule.target for rule in rules if rule.only and rule.bits & bit}
        if only and target not in only:
            who &= ~bit
    return who
