"""Which names come close to one that does not exist: an index made once, answers at once."""

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable

_GRAM = 3
_LOOKED_AT = 40
_MOST_CHARACTERS = 200
_MOST_COMMON = 2_000  # names that share three characters with so many others say little


class SimilarNames:
    """Finds names that look like a given one, by the three-letter pieces they share.

    >>> SimilarNames(["north-1", "north-2", "harbour"]).closest("nort-1")
    ['north-1', 'north-2', 'harbour']
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Index the pieces."""
        self._names = list(names)
        self._having: defaultdict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self._names):
            for piece in _pieces(name):
                self._having[piece].append(place)

    def closest(self, name: str, count: int = 3) -> list[str]:
        """Return the closest names, best first."""
        shown = name[:_MOST_CHARACTERS]
        shared: Counter[int] = Counter()
        for piece in _pieces(shown):
            having = self._having.get(piece, ())
            shared.update(having[:_MOST_COMMON])
        some = [self._names[place] for place, _ in shared.most_common(_LOOKED_AT)]
        if len(some) < count:
            some += [other for other in self._names[: _LOOKED_AT + count] if other not in some]
        return difflib.get_close_matches(shown, some, n=count, cutoff=0.0)


def _pieces(name: str) -> set[str]:
    padded = f"^{name}$"
    return {padded[place : place + _GRAM] for place in range(max(len(padded) - _GRAM + 1, 1))}
