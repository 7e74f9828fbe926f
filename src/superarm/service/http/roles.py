"""What keys may do."""

from typing import Literal

Role = Literal["read", "report", "admin"]
RANKS: dict[str, int] = {"read": 0, "report": 1, "admin": 2}
"""A role may do what those before it may."""
