"""Bodies of requests: read within limits of size, of values and of time, and counted while held."""

import asyncio
import zlib
from collections.abc import Callable

from starlette.types import Message, Receive

from superarm.service.http.access import MOST_VALUES
from superarm.service.http.refused import Refused

MOST_UNPACKED = 16 * 2**20
"""Bytes of a body after decompression."""

MOST_OBJECTS, MOST_LISTS = 100_000, 10_000
"""How many objects and lists a body may hold, before anything is made of them."""

MOST_BUFFERED, MOST_BUFFERED_PER_KEY = 96 * 2**20, 40 * 2**20
"""Bytes of bodies that are held at one time, in all and of one key."""

PART_S, BODY_S = 10.0, 60.0
"""How long to wait for the next part of a body, and for all of it."""

DRAIN_S, MOST_DRAINED = 2.0, 8 * 2**20
"""How long, and how much, of a refused body is heard, so that the answer is."""

_GZIP = 16 + zlib.MAX_WBITS
_WORTH_A_THREAD = 2_000


def has_body(headers: dict[str, bytes]) -> bool:
    """Say whether a request says that a body follows."""
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


async def checked_body(
    headers: dict[str, bytes], receive: Receive, most: int, take: Callable[[int], bool]
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
            await drained(noting)
        raise


async def drained(receive: Receive) -> None:
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
    headers: dict[str, bytes], receive: Receive, most: int, take: Callable[[int], bool]
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
        if not take(len(chunk)):
            detail = "too many large bodies at one time; try again, or send smaller ones"
            raise Refused(503, detail, {"retry-after": "2"})
        parts.append(chunk)
    if unpack is not None and (not unpack.eof or unpack.unused_data):
        raise Refused(400, "the gzip body is incomplete, or has more than one part")
    return b"".join(parts)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the body exceeds {limit // 2**20} MiB; send trips in smaller batches")


def replay(body: bytes, receive: Receive) -> Receive:
    """Return what hands a body over that was read already."""
    sent = False

    async def once() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once
