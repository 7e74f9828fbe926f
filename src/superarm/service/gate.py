"""What every request passes: its id, the host, limits of size, headers, a line in the log."""

import asyncio
import json
import logging
import re
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from superarm.service.keys import Key
from superarm.service.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Who = Callable[[str | None], Awaitable[Key]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 8 * 2**20
"""Bytes of a request's body as sent."""

MOST_UNPACKED = 32 * 2**20
"""Bytes of a request's body after decompression."""

BODY_S = 30.0
"""How long to wait for the next part of a body."""

MOST_HEARD = 64 * 2**20
"""Bytes of a refused body that are read and thrown away before the connection is cut."""

_GZIP = 16 + zlib.MAX_WBITS
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

logger = logging.getLogger("superarm.service")


class Refused(Exception):  # noqa: N818 - not an error of ours
    """A request that is not let in."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Remember what to answer."""
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


class Gate:
    """ASGI middleware around the application.

    Args:
        app: the application.
        metrics: counts and times requests.
        hosts: names the server answers to; all, if none are given.
        who: returns whose key it is, or refuses.
    """

    def __init__(
        self, app: Application, metrics: Metrics, hosts: frozenset[str] | None, who: Who
    ) -> None:
        """Remember what to guard."""
        self._app = app
        self._who = who
        self._metrics = metrics
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
            if _needs_key(scope["path"]):  # before anything of the body is read
                key = await self._who(_bearer_of(headers))
                scope["state"]["key"] = key
                scope["state"]["key_id"] = key.id
            body = await _checked_body(headers, receive) if _has_body(headers) else None
            await self._app(scope, receive if body is None else _replay(body, receive), answering)
        except Refused as refused:
            await _refuse(answering, refused, request_id)
        except Exception:
            logger.exception("unexpected", extra={"request_id": request_id})
            if not answer["begun"]:
                sorry = Refused(500, "something went wrong here; it has been logged")
                await _refuse(answering, sorry, request_id)
        finally:
            self._log(scope, request_id, int(answer["status"]), time.perf_counter() - began)

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


def _needs_key(path: str) -> bool:
    return path == "/metrics" or (path.startswith("/v1/") and path != "/v1/openapi.json")


def _bearer_of(headers: dict[str, bytes]) -> str | None:
    kind, _, secret = headers.get("authorization", b"").decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" and secret.strip() else None


def _request_id(headers: dict[str, bytes]) -> str:
    given = headers.get("x-request-id", b"").decode("latin-1")
    return given if _REQUEST_ID.match(given) else secrets.token_hex(8)


def _has_body(headers: dict[str, bytes]) -> bool:
    return headers.get("content-length", b"0") != b"0" or "transfer-encoding" in headers


def _unpacking(headers: dict[str, bytes]) -> "zlib._Decompress | None":
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
    if int(length) > MOST_BODY:
        raise _too_large(MOST_BODY)
    return zlib.decompressobj(_GZIP) if encoding == "gzip" else None


async def _checked_body(headers: dict[str, bytes], receive: Receive) -> bytes:
    """Return the body; of one that is refused, hear the rest, so that the answer is heard."""
    more = True

    async def noting() -> Message:
        nonlocal more
        message = await receive()
        more = message.get("more_body", False)
        return message

    try:
        return await _body(headers, noting)
    except Refused:
        heard = 0
        while more and heard < MOST_HEARD:
            heard += len((await noting()).get("body", b""))
        raise


async def _body(headers: dict[str, bytes], receive: Receive) -> bytes:
    """Return the body, decompressed; stop as soon as it is too large."""
    unpack = _unpacking(headers)
    parts, sent, size, more = [], 0, 0, True
    while more:
        try:
            message = await asyncio.wait_for(receive(), BODY_S)
        except TimeoutError as error:
            raise Refused(408, f"the body did not come within {BODY_S:g} s") from error
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection was closed before the body was complete")
        chunk, more = message.get("body", b""), message.get("more_body", False)
        sent += len(chunk)
        if unpack is not None:
            try:
                chunk = unpack.decompress(chunk, MOST_UNPACKED + 1 - size)
            except zlib.error as error:
                raise Refused(400, "the body is not gzip, as content-encoding says") from error
        size += len(chunk)
        if sent > MOST_BODY or size > MOST_UNPACKED:
            raise _too_large(MOST_BODY if sent > MOST_BODY else MOST_UNPACKED)
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
