"""Bytes that are held at one time, in all and for one key."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Budget:
    """Room for what is held, so that no key fills the memory.

    What a key asks for while it holds nothing has room however large it is, unless all of it is
    taken: nothing is refused for ever.

    Args:
        most: bytes, in all.
        most_per_key: bytes of one key.
    """

    def __init__(self, most: int, most_per_key: int) -> None:
        """Start empty."""
        self._most, self._most_per_key = most, most_per_key
        self._of_key: Counter[str] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes that are held now."""
        return self._total

    @contextmanager
    def held(self, key_id: str) -> Iterator[Callable[[int], bool]]:
        """Yield what takes more room, and says whether there was any; all is given back after."""
        taken = 0

        def take(size: int) -> bool:
            nonlocal taken
            of_key = self._of_key[key_id]
            alone = of_key == 0
            if self._total + size > self._most or not (
                alone or of_key + size <= self._most_per_key
            ):
                return False
            taken += size
            self._total += size
            self._of_key[key_id] += size
            return True

        try:
            yield take
        finally:
            self._total -= taken
            self._of_key[key_id] -= taken
            if self._of_key[key_id] <= 0:
                del self._of_key[key_id]
