"""Values that are stored otherwise than by their fields."""

from typing import Any, Protocol, Self, runtime_checkable


@runtime_checkable
class Stored(Protocol):
    """A value that is stored otherwise than by its fields."""

    def stored(self) -> dict[str, object]:
        """Return what to store, by name."""
        ...

    @classmethod
    def restored(cls, parts: dict[str, Any], /) -> Self:
        """Return the value from what was stored."""
        ...
