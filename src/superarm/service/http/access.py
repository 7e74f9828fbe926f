"""Who asks, as endpoints see it: the gate has looked already."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from superarm.service.http.keys import Key

_bearer = HTTPBearer(auto_error=False, description="An API key, `superarm.ID.SECRET`.")


async def asking(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Key:
    """Return the key of a request, which has the role that its path needs."""
    del given  # it was looked at before the body was read
    key: Key = request.state.key
    return key


Reading = Annotated[Key, Depends(asking)]
Reporting = Annotated[Key, Depends(asking)]
Administering = Annotated[Key, Depends(asking)]
