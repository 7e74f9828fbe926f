"""One stored value: itself, and what is asked of it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Fixture:
    """A value to be stored.

    Attributes:
        name: of its file.
        value: itself.
        asked: the name of the question (`stored.asking.learning.ASKED`).
        given: what the question needs besides; stored with the value.
        is_run: whether it is an agent, kept by `superarm.save` with its generators.
    """

    name: str
    value: Any
    asked: str = "fields"
    given: dict[str, Any] = field(default_factory=dict)
    is_run: bool = False
