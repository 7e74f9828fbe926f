"""A request that is not let in."""


class Refused(Exception):  # noqa: N818 - not an error of ours
    """A request that is not let in: what to answer.

    Args:
        status: of the answer.
        detail: what is wrong, and what to do.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Remember what to answer."""
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}
