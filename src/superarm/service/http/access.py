"""Who may ask: every operation declares its role, or that it is public, where it is defined.

An operation declares it by a dependency: ``key: Reading`` (or another of the aliases below) as a
parameter, or ``dependencies=[PUBLIC]``. The gate looks the declaration up before it reads anything
of a body. The dependency looks again: an operation that the gate does not know is closed as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from superarm.service.http.keys import Key
from superarm.service.http.refused import Refused
from superarm.service.http.roles import RANKS, Role

MOST_BODY, MOST_VALUES = 8 * 2**20, 500_000
"""Bytes of a report's body as sent, and about how many values it may hold."""

MOST_OTHER_BODY, MOST_OTHER_VALUES = 2**20, 50_000
"""Likewise of any other body."""

_bearer = HTTPBearer(auto_error=False, description="An API key, `superarm.ID.SECRET`.")


@dataclass(frozen=True)
class Public:
    """An operation that needs no key.

    Attributes:
        is_counted: whether requests count against the address they come from.
    """

    is_counted: bool = True

    async def __call__(self) -> None:
        """Let everybody in."""


@dataclass(frozen=True)
class Needs:
    """An operation that needs a key.

    Attributes:
        role: the lowest role that may ask.
        most_body: bytes of a body as sent.
        most_values: about how many values a body may hold.
    """

    role: Role
    most_body: int = MOST_OTHER_BODY
    most_values: int = MOST_OTHER_VALUES

    async def __call__(
        self,
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Key:
        """Return the key of a request, which the gate has looked at."""
        del given  # only documented here: the gate reads it before the body
        key: Key | None = getattr(request.state, "key", None)
        if key is None:
            raise Refused(401, "send an API key: Authorization: Bearer superarm.ID.SECRET")
        self.require(key)
        return key

    def require(self, key: Key) -> None:
        """Refuse a key of too low a role."""
        if RANKS[key.role] < RANKS[self.role]:
            raise Refused(403, f"this needs a key of role {self.role!r}; yours is {key.role!r}")


Access = Public | Needs


def requires(role: Role, **limits: int) -> Any:  # noqa: ANN401 - as `fastapi.Depends`
    """Return the dependency of an operation that needs a key of a role, or of a higher one.

    Args:
        role: the lowest role that may ask.
        limits: of its body, as in `Needs`.
    """
    return Depends(Needs(role, **limits))


Reading = Annotated[Key, requires("read")]
Reporting = Annotated[Key, requires("report")]
ReportingTrips = Annotated[Key, requires("report", most_body=MOST_BODY, most_values=MOST_VALUES)]
Administering = Annotated[Key, requires("admin")]

PUBLIC: Dependency = Depends(Public())
ALWAYS_PUBLIC: Dependency = Depends(Public(is_counted=False))
"""Whether the service works is answered to anybody, however often."""

_UNKNOWN = Needs("read")


class Operations:
    """What every operation of an application declares.

    Args:
        routes: of the application.

    Raises:
        ValueError: if an operation declares nothing.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        """Look at all operations."""
        self._declared = [(route, _declared(route)) for route in routes]

    def access(self, scope: Scope) -> Access:
        """Return what a request needs, by the route that will answer it.

        Unknown paths need a key of any role, and so do methods that a known path does not have.
        """
        of_path: Access | None = None
        for route, access in self._declared:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return access
            if match is Match.PARTIAL and of_path is None:
                of_path = access
        return of_path if isinstance(of_path, Public) else _UNKNOWN


def role_of(route: BaseRoute) -> str:
    """Return the role that an operation declares, or ``"public"``."""
    access = _declared(route)
    return access.role if isinstance(access, Needs) else "public"


def _declared(route: BaseRoute) -> Access:
    access = _among(route.dependant) if isinstance(route, APIRoute) else None
    if access is None:
        methods = ", ".join(sorted(getattr(route, "methods", None) or ())) or type(route).__name__
        msg = (
            f"{methods} {getattr(route, 'path', route)} declares no role; give it a parameter "
            "`key: Reading` (or Reporting, Administering), or dependencies=[PUBLIC]"
        )
        raise ValueError(msg)
    return access


def _among(dependant: Dependant) -> Access | None:
    """Return what one of an operation's dependencies declares."""
    calls = [one.call for one in dependant.dependencies]
    return next((call for call in calls if isinstance(call, Public | Needs)), None)
