"""What every request passes: its id, the host, limits of size, headers, a line in the log."""

import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from superarm.service.http.access import Needs, Operations, Public
from superarm.service.http.answers import (
    MOST_UNSENT,
    MOST_UNSENT_PER_KEY,
    Handing,
    NoRoomError,
    refuse,
)
from superarm.service.http.bodies import (
    MOST_BUFFERED,
    MOST_BUFFERED_PER_KEY,
    bounded,
    checked_body,
    drained,
    has_body,
    replay,
)
from superarm.service.http.budget import Budget
from superarm.service.http.keys import Key
from superarm.service.http.metrics import Gauges, Metrics
from superarm.service.http.refused import Refused

MOST_AT_ONCE = 200
"""Requests of one key that are being answered at one time."""

VALUES_PER_REQUEST = 1_000.0
"""So many values of a body cost a key as much as one request."""

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self' blob:; font-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=()",
}


def policy_with(tiles: str) -> str:
    """Return what the page may load if its background comes from elsewhere, and nothing more."""
    parts = urlsplit(tiles)
    origin = f"{parts.scheme}://{parts.netloc}"
    policy = SECURITY_HEADERS["content-security-policy"]
    for kind in ("img-src 'self'", "connect-src 'self'"):
        policy = policy.replace(kind, f"{kind} {origin}")
    return policy


logger = logging.getLogger("superarm.service")


class Doorkeeper(Protocol):
    """Knows who may come in, and how often."""

    async def who(self, given: str | None, address: str, /) -> Key:
        """Return whose key this is, or refuse."""
        ...

    def stranger(self, address: str, /) -> None:
        """Count a request without a key against its address, or refuse."""
        ...

    def charge(self, key: Key, cost: float, /) -> None:
        """Count requests against a key, or refuse."""
        ...

    def spend(self, key: Key, cost: float, /) -> None:
        """Count requests against a key that were answered already."""
        ...


class Gate:
    """ASGI middleware around the application: who asks, what for, and how much of it.

    Args:
        app: the application.
        operations: what each of its operations declares.
        metrics: counts and times requests.
        hosts: names the server answers to; all, if none are given.
        keeper: says who may come in.
    """

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        metrics: Metrics,
        hosts: frozenset[str] | None,
        keeper: Doorkeeper,
    ) -> None:
        """Remember what to guard."""
        self._app = app
        self._operations = operations
        self._keeper = keeper
        self._metrics = metrics
        self._hosts = hosts
        self._bodies = Budget(MOST_BUFFERED, MOST_BUFFERED_PER_KEY)
        self._unsent = Budget(MOST_UNSENT, MOST_UNSENT_PER_KEY)
        metrics.show(self._gauges)
        self._at_once: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {key.decode("latin-1"): value for key, value in scope["headers"]}
        request_id = _request_id(headers)
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.perf_counter()
        answer = {"status": 500, "begun": False}

        async def answering(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer["status"], answer["begun"] = message["status"], True
                extra = SECURITY_HEADERS | {"x-request-id": request_id}
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in extra.items()
                        if name.encode() not in given
                    ),
                ]
            await send(message)

        try:
            self._check_host(headers)
            await self._let_in(scope, headers, receive, answering)
        except Refused as refused:
            await refuse(answering, refused, request_id)
        except NoRoomError:
            detail = "too many large answers wait for their clients to read them; try again"
            await refuse(answering, Refused(503, detail, {"retry-after": "2"}), request_id)
        except Exception as error:
            if _has_gone(error):  # nobody is there to be answered
                return
            logger.exception("unexpected", extra={"request_id": request_id})
            if not answer["begun"]:
                sorry = Refused(500, "something went wrong here; it has been logged")
                await refuse(answering, sorry, request_id)
        finally:
            self._log(scope, request_id, int(answer["status"]), time.perf_counter() - began)

    async def _let_in(
        self, scope: Scope, headers: dict[str, bytes], receive: Receive, send: Send
    ) -> None:
        access = self._operations.access(scope)
        address = scope["client"][0] if scope.get("client") else ""
        if isinstance(access, Public):
            if has_body(headers):
                raise Refused(413, "nothing here takes a body", {"connection": "close"})
            if access.is_counted:
                self._keeper.stranger(address)
            _let_in(scope)
            handing = Handing(send, lambda _: True, lambda _: None, _has_left(scope))
            await self._app(scope, receive, handing.send)
            return
        # before anything of the body is read: who asks, may they, and have they asked too often
        closing = {"connection": "close"} if has_body(headers) else {}
        try:
            key = await self._keeper.who(_bearer_of(headers), address)
            scope["state"]["key"], scope["state"]["key_id"] = key, key.id
            access.require(key)
            self._require_few(key)
        except Refused as refused:
            refused.headers |= closing
            if closing:
                await drained(receive)
            raise
        _let_in(scope)
        self._at_once[key.id] += 1
        try:
            await self._answer(scope, headers, receive, send, key, access)
        finally:
            self._at_once[key.id] -= 1
            if self._at_once[key.id] <= 0:
                del self._at_once[key.id]

    async def _answer(  # noqa: PLR0913, PLR0917 - all that is known of a request
        self,
        scope: Scope,
        headers: dict[str, bytes],
        receive: Receive,
        send: Send,
        key: Key,
        access: Needs,
    ) -> None:
        """Answer a request that is let in; its body is read within the operation's limits."""
        with self._unsent.held(key.id) as wait, self._bodies.held(key.id) as take:
            spend = partial(self._keeper.spend, key)
            handing = Handing(send, wait, spend, _has_left(scope))
            if has_body(headers):
                body = await checked_body(headers, receive, access.most_body, take)
                values = bounded(body, access.most_values)
                self._keeper.charge(key, values / VALUES_PER_REQUEST)
                receive = replay(body, receive)
            await self._app(scope, receive, handing.send)

    def _require_few(self, key: Key) -> None:
        """Refuse a key that asks too much."""
        self._keeper.charge(key, 1.0)
        if self._at_once[key.id] >= MOST_AT_ONCE:
            detail = f"more than {MOST_AT_ONCE} requests with this key at one time"
            raise Refused(429, detail, {"retry-after": "1"})

    def _gauges(self) -> Gauges:
        return {
            "unsent_bytes": (
                "Bytes of answers that wait for their clients to read, connections' buffers aside.",
                self._unsent.total,
                (),
            )
        }

    def _check_host(self, headers: dict[str, bytes]) -> None:
        if self._hosts is None:
            return
        host = headers.get("host", b"").decode("latin-1").lower()
        name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
        if name not in self._hosts:
            raise Refused(421, f"this server does not answer to the host {host!r}")

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", None) or "other"
        self._metrics.observe(path, status, seconds)
        logger.info(
            "request",
            extra={
                "request_id": request_id,
                "method": scope["method"],
                "path": path,
                "status": status,
                "ms": round(1e3 * seconds, 2),
                "key": scope["state"].get("key_id"),
            },
        )


def _let_in(scope: Scope) -> None:
    """Tell the connection that it is being served now, if it wants to know."""
    told: Callable[[], None] | None = scope["state"].get("let_in")
    if told is not None:
        told()


def _has_left(scope: Scope) -> Callable[[], bool]:
    """Return what says whether the client has left, if the connection knows."""
    has_left: Callable[[], bool] = scope["state"].get("has_left", lambda: False)
    return has_left


def _has_gone(error: Exception) -> bool:
    """Say whether a client was cut off, or has left, while it was being answered."""
    if isinstance(error, OSError):
        return isinstance(error, ConnectionError)
    return isinstance(error, RuntimeError) and "closed" in str(error)


def _bearer_of(headers: dict[str, bytes]) -> str | None:
    kind, _, secret = headers.get("authorization", b"").decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" and secret.strip() else None


def _request_id(headers: dict[str, bytes]) -> str:
    given = headers.get("x-request-id", b"").decode("latin-1")
    return given if _REQUEST_ID.match(given) else secrets.token_hex(8)
