"""What every request passes: its id, the host, limits of size, headers, a line in the log."""

import asyncio
import json
import logging
import re
import secrets
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from superarm.service.http.keys import RANKS, Key, Role
from superarm.service.http.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 8 * 2**20
"""Bytes of a report's body as sent."""

MOST_OTHER_BODY = 2**20
"""Bytes of any other body as sent."""

MOST_UNPACKED = 16 * 2**20
"""Bytes of a body after decompression."""

MOST_VALUES, MOST_OBJECTS, MOST_LISTS = 500_000, 100_000, 10_000
"""How many values, objects and lists a body may hold, before anything is made of them."""

MOST_BUFFERED, MOST_BUFFERED_PER_KEY = 96 * 2**20, 40 * 2**20
"""Bytes of bodies that are held at one time, in all and of one key."""

MOST_AT_ONCE = 200
"""Requests of one key that are being answered at one time."""

PART_S, BODY_S = 10.0, 60.0
"""How long to wait for the next part of a body, and for all of it."""

DRAIN_S, MOST_DRAINED = 2.0, 8 * 2**20
"""How long, and how much, of a refused body is heard, so that the answer is."""

MOST_OTHER_VALUES = 50_000
"""Likewise of values, where no trips are reported."""

VALUES_PER_REQUEST = 1_000.0
"""So many values of a body cost a key as much as one request."""

HEALTH = frozenset({"/healthz", "/readyz"})
"""Always answered, to anybody."""

_GZIP = 16 + zlib.MAX_WBITS
_WORTH_A_THREAD = 2_000
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


class Refused(Exception):  # noqa: N818 - not an error of ours
    """A request that is not let in."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Remember what to answer."""
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


def role_for(method: str, path: str) -> Role | None:  # noqa: PLR0911 - one per kind of path
    """Return the lowest role that may ask this; none where no key is needed."""
    if path == "/metrics":
        return "read"
    if not path.startswith("/v1/") or path == "/v1/openapi.json":
        return None
    if path == "/v1/keys/me" and method in {"GET", "HEAD"}:
        return "read"
    if path.startswith("/v1/keys"):
        return "admin"
    if path.startswith("/v1/quarantine"):
        return "report" if method in {"GET", "HEAD"} else "admin"
    if path.startswith(("/v1/trips", "/v1/traces", "/v1/demo")):
        return "report"
    return "read"


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


class Budget:
    """Room for bodies that are being read, so that unfinished ones cannot fill the memory."""

    def __init__(self) -> None:
        """Start empty."""
        self._total = 0
        self._of_key: Counter[str] = Counter()

    @contextmanager
    def held(self, key: Key) -> Iterator[Callable[[int], None]]:
        """Yield what takes more room, or refuses; all of it is given back at the end."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            full = self._total + size > MOST_BUFFERED
            if full or self._of_key[key.id] + size > MOST_BUFFERED_PER_KEY:
                detail = "too many large bodies at one time; try again, or send smaller ones"
                raise Refused(503, detail, {"retry-after": "2"})
            mine += size
            self._total += size
            self._of_key[key.id] += size

        try:
            yield take
        finally:
            self._total -= mine
            self._of_key[key.id] -= mine
            if self._of_key[key.id] <= 0:
                del self._of_key[key.id]


class Gate:
    """ASGI middleware around the application: who asks, what for, and how much of it.

    Args:
        app: the application.
        metrics: counts and times requests.
        hosts: names the server answers to; all, if none are given.
        keeper: says who may come in.
    """

    def __init__(
        self,
        app: Application,
        metrics: Metrics,
        hosts: frozenset[str] | None,
        keeper: Doorkeeper,
    ) -> None:
        """Remember what to guard."""
        self._app = app
        self._keeper = keeper
        self._metrics = metrics
        self._hosts = hosts
        self._budget = Budget()
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
            await _refuse(answering, refused, request_id)
        except Exception as error:
            if _has_gone(error):  # nobody is there to be answered
                return
            logger.exception("unexpected", extra={"request_id": request_id})
            if not answer["begun"]:
                sorry = Refused(500, "something went wrong here; it has been logged")
                await _refuse(answering, sorry, request_id)
        finally:
            self._log(scope, request_id, int(answer["status"]), time.perf_counter() - began)

    async def _let_in(
        self, scope: Scope, headers: dict[str, bytes], receive: Receive, send: Send
    ) -> None:
        role = role_for(scope["method"], scope["path"])
        address = scope["client"][0] if scope.get("client") else ""
        if role is None:
            if _has_body(headers):
                raise Refused(413, "nothing here takes a body", {"connection": "close"})
            if scope["path"] not in HEALTH:
                self._keeper.stranger(address)
            _let_in(scope)
            await self._app(scope, receive, send)
            return
        # before anything of the body is read: who asks, may they, and have they asked too often
        closing = {"connection": "close"} if _has_body(headers) else {}
        try:
            key = await self._keeper.who(_bearer_of(headers), address)
            scope["state"]["key"], scope["state"]["key_id"] = key, key.id
            self._may(key, role)
        except Refused as refused:
            refused.headers |= closing
            if closing:
                await _drained(receive)
            raise
        _let_in(scope)
        self._at_once[key.id] += 1
        try:
            if not _has_body(headers):
                await self._app(scope, receive, send)
                return
            with self._budget.held(key) as take:
                trips = scope["path"] == "/v1/trips"
                most = MOST_BODY if trips else MOST_OTHER_BODY
                body = await _checked_body(headers, receive, most, take)
                values = bounded(body, MOST_VALUES if trips else MOST_OTHER_VALUES)
                self._keeper.charge(key, values / VALUES_PER_REQUEST)
                await self._app(scope, _replay(body, receive), send)
        finally:
            self._at_once[key.id] -= 1
            if self._at_once[key.id] <= 0:
                del self._at_once[key.id]

    def _may(self, key: Key, role: Role) -> None:
        """Refuse a key that has too low a role, or asks too much."""
        if RANKS[key.role] < RANKS[role]:
            raise Refused(403, f"this needs a key of role {role!r}; yours is {key.role!r}")
        self._keeper.charge(key, 1.0)
        if self._at_once[key.id] >= MOST_AT_ONCE:
            detail = f"more than {MOST_AT_ONCE} requests with this key at one time"
            raise Refused(429, detail, {"retry-after": "1"})

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


def _has_body(headers: dict[str, bytes]) -> bool:
    return headers.get("content-length", b"0") != b"0" or "transfer-encoding" in headers


def _unpacking(headers: dict[str, bytes], most: int) -> "zlib._Decompress | None":
    """Say how to read a body; refuse what is no JSON or too large before reading it."""
    kind = headers.get("content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"send application/json, not {kind or 'a body without content-type'!r}")
    encoding = headers.get("content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise Refused(415, f"content-encoding {encoding!r} is not supported; use gzip or none")
    length = headers.get("content-length", b"0")
    if not length.isdigit():
        raise Refused(400, "content-length must be a number")
    if int(length) > most:
        raise _too_large(most)
    return zlib.decompressobj(_GZIP) if encoding == "gzip" else None


def bounded(body: bytes, most_values: int = MOST_VALUES) -> int:
    """Return about how many values a body holds; refuse too many before they are made."""
    values = body.count(b",") + body.count(b":") + 1
    for what, number, most in (
        ("values", values, most_values),
        ("objects", body.count(b"{"), MOST_OBJECTS),
        ("lists", body.count(b"["), MOST_LISTS),
    ):
        if number > most:
            msg = f"the body holds more than {most:,} {what}; send less at once"
            raise Refused(413, msg)
    return values


async def _checked_body(
    headers: dict[str, bytes], receive: Receive, most: int, take: Callable[[int], None]
) -> bytes:
    """Return the body; of one that is refused, hear some more, so that the answer is heard."""
    more = True

    async def noting() -> Message:
        nonlocal more
        message = await receive()
        more = message.get("more_body", False)
        return message

    try:
        async with asyncio.timeout(BODY_S):
            return await _body(headers, noting, most, take)
    except TimeoutError:
        detail = f"the body did not come: {PART_S:g} s for a part of it, {BODY_S:g} s for all"
        raise Refused(408, detail, {"connection": "close"}) from None
    except Refused as refused:
        if more:
            refused.headers |= {"connection": "close"}
            await _drained(noting)
        raise


async def _drained(receive: Receive) -> None:
    """Hear what is left of a body for a moment: clients that are cut off hear no answer."""
    heard = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            while heard < MOST_DRAINED:
                message = await receive()
                heard += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def _body(
    headers: dict[str, bytes], receive: Receive, most: int, take: Callable[[int], None]
) -> bytes:
    """Return the body, decompressed; stop as soon as it is too large."""
    unpack = _unpacking(headers, most)
    parts, sent, size, more = [], 0, 0, True
    while more:
        message = await asyncio.wait_for(receive(), PART_S)
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection was closed before the body was complete")
        chunk, more = message.get("body", b""), message.get("more_body", False)
        sent += len(chunk)
        if unpack is not None:
            try:
                room = MOST_UNPACKED + 1 - size
                if len(chunk) > _WORTH_A_THREAD:  # it may unpack to a thousand times as much
                    chunk = await asyncio.to_thread(unpack.decompress, chunk, room)
                else:
                    chunk = unpack.decompress(chunk, room)
            except zlib.error as error:
                raise Refused(400, "the body is not gzip, as content-encoding says") from error
        size += len(chunk)
        if sent > most or size > MOST_UNPACKED:
            raise _too_large(most if sent > most else MOST_UNPACKED)
        take(len(chunk))
        parts.append(chunk)
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise Refused(400, "the gzip body is incomplete, or has more than one part")
    return b"".join(parts)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the body exceeds {limit // 2**20} MiB; send trips in smaller batches")


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def once() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


async def _refuse(send: Send, refused: Refused, request_id: str) -> None:
    body = json.dumps({"detail": refused.detail, "request_id": request_id}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    await send(
        {
            "type": "http.response.start",
            "status": refused.status,
            "headers": [
                (name.encode(), value.encode())
                for name, value in (headers | refused.headers).items()
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
