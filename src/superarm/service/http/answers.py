"""Answers: handed over in pieces as their clients take them; what waits until then is counted."""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from superarm.service.http.refused import Refused

PIECE = 64 * 2**10
"""Bytes of an answer that are handed over at one time. The connection takes no further piece until
its client has read most of the one before."""

MOST_UNSENT, MOST_UNSENT_PER_KEY = 128 * 2**20, 16 * 2**20
"""Bytes of answers that wait for their clients, in all and of one key; but one answer at a time may
be larger than a key's share."""

STREAM = 2**20
"""What an answer counts as that is made while it is sent: so much is held to make it."""

_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 4


class NoRoomError(ConnectionError):
    """Too much waits for clients to read it; nothing of this answer was sent.

    A connection's error, since these alone pass the framework once an answer has begun.
    """


class Handing:
    """Hands one answer over, piece by piece.

    Args:
        send: to the connection; it waits until the client has taken enough.
        take: takes room for what waits, and says whether there was any.
        spend: counts requests against the key.
        has_left: says whether the client is gone.
    """

    def __init__(
        self,
        send: Send,
        take: Callable[[int], bool],
        spend: Callable[[float], None],
        has_left: Callable[[], bool],
    ) -> None:
        """Start with nothing sent."""
        self._send, self._take, self._spend, self._has_left = send, take, spend, has_left
        self._start: Message | None = None
        self._is_first = True

    async def send(self, message: Message) -> None:
        """Hand a part of the answer over; the first piece is free, each further one a request.

        Raises:
            NoRoomError: if too much waits already.
            ConnectionError: if the client has left.
        """
        if message["type"] == "http.response.start":
            self._start = message  # held back until it is known that the body has room
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            size = STREAM if more else len(body)
            if size > PIECE and not self._take(size):
                raise NoRoomError
            start, self._start = self._start, None
            await self._send(start)
        for begin in range(0, max(len(body), 1), PIECE):
            piece = body[begin : begin + PIECE]
            if not self._is_first:
                self._spend(len(piece) / PIECE)
                if self._has_left():
                    raise ConnectionResetError
            self._is_first = False
            last = begin + PIECE >= len(body)
            await self._send(
                {"type": "http.response.body", "body": piece, "more_body": more or not last}
            )


class Pieces(Response):
    """An answer that is made while it is sent, by a thread, as fast as its client reads."""

    def __init__(
        self, pieces: Iterable[bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Take what makes it.

        Args:
            pieces: the body.
            media_type: of all of it.
            headers: more of them.
        """
        super().__init__(None, headers=headers, media_type=media_type)
        del self.headers["content-length"]  # known only when all is made
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send piece by piece."""
        del scope, receive
        begin: dict[str, Any] = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start"} | begin)
        pieces = iter(self._pieces)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces compressed by gzip."""
    packing = zlib.compressobj(_LEVEL, wbits=_GZIP)
    for piece in pieces:
        if small := packing.compress(piece):
            yield small
    yield packing.flush()


def unpacked(body: bytes) -> Iterator[bytes]:
    """Yield pieces of what gzip has compressed."""
    unpacking = zlib.decompressobj(_GZIP)
    while not unpacking.eof:
        yield unpacking.decompress(body, PIECE)
        body = unpacking.unconsumed_tail


async def refuse(send: Send, refused: Refused, request_id: str) -> None:
    """Answer a request that is not let in."""
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
