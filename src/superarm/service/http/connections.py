"""Connections: how many there may be, how long they may dawdle.

A connection that waits costs little and says nothing about its client, so that those which have
waited longest are closed when there are too many, of one address or in all; one that is being
served is never closed for another.
"""

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from superarm.service.http.metrics import Gauges, Metrics

MOST_HEAD = 64 * 2**10
"""Bytes of a request's first line and headers; likewise of what surrounds the parts of a body."""

MOST_FRAMING = 8
"""Bytes around the parts of a body (sizes, extensions, trailers) for every byte of it."""

MOST_PIPELINED = 16
"""Requests of one connection that wait for the answer to the one before."""


@dataclass(frozen=True)
class Limits:
    """How many connections there may be, and how long each may take.

    Attributes:
        in_all: connections.
        per_address: connections from one address; a proxy is one address.
        head_s: until the headers of a request are complete.
        write_s: until a client takes what is sent to it.
        answer_s: until a client has taken all of an answer.
    """

    in_all: int = 1_000
    per_address: int = 256
    head_s: float = 10.0
    write_s: float = 30.0
    answer_s: float = 300.0


class Door:
    """Knows all connections of a server."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        """Start without any."""
        self.limits = limits
        self._metrics = metrics
        self._open: set[GuardedProtocol] = set()
        self._by_address: Counter[str] = Counter()
        self._waiting: OrderedDict[GuardedProtocol, None] = OrderedDict()
        metrics.show(self._gauges)

    def _gauges(self) -> Gauges:
        # asked for by another thread: a copy, since connections come and go meanwhile
        buffered = sum(one.transport.get_write_buffer_size() for one in list(self._open))
        return {
            "connections": ("Connections that are open.", len(self._open), ()),
            "buffered_bytes": ("Bytes in connections' buffers, not yet sent.", buffered, ()),
        }

    def opened(self, connection: "GuardedProtocol") -> bool:
        """Say whether a new connection may stay; others may have to go."""
        address = connection.address
        self._by_address[address] += 1
        self._open.add(connection)
        if self._by_address[address] > self.limits.per_address:
            if not self._close_one(address):
                return False
        elif self._by_address.total() > self.limits.in_all and not self._close_one(None):
            return False
        self.waits(connection)
        return True

    def _close_one(self, address: str | None) -> bool:
        for other in self._waiting:
            if address is None or other.address == address:
                self.refuse(other, "too many")
                return True
        return False

    def waits(self, connection: "GuardedProtocol") -> None:
        """Take note that a connection waits for its next request."""
        self._waiting[connection] = None
        self._waiting.move_to_end(connection)

    def works(self, connection: "GuardedProtocol") -> None:
        """Take note that a connection is being served."""
        self._waiting.pop(connection, None)

    def closed(self, connection: "GuardedProtocol") -> None:
        """Forget a connection."""
        self._waiting.pop(connection, None)
        self._open.discard(connection)
        address = connection.address
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]

    def refuse(self, connection: "GuardedProtocol", reason: str) -> None:
        """Close a connection at once."""
        self._metrics.refused(reason)
        self._waiting.pop(connection, None)
        connection.transport.abort()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, within the limits of a `Door`."""

    door: Door

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Start without timers."""
        super().__init__(*args, **options)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head = 0
        self._in_head = True
        self._body = self._framing = 0
        self._counted = False

    @property
    def address(self) -> str:
        """Where the client is."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a transport
        """Let it in, or not."""
        super().connection_made(transport)
        self._counted = True
        if not self.door.opened(self):
            self.door.refuse(self, "too many")
            return
        self._start("slow head", self.door.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._counted:
            self._counted = False
            self.door.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before a body."""
        if self._in_head:
            self._head += len(data)
        before = self._body
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._in_head:
            self._framing += max(len(data) - max(self._body - before, 0), 0)
        if self._in_head and self._head > MOST_HEAD:
            self.door.refuse(self, "large head")
        elif self._framing > MOST_HEAD + MOST_FRAMING * self._body:
            self.door.refuse(self, "no body")

    def on_message_begin(self) -> None:
        """Give the headers some time."""
        super().on_message_begin()
        self._in_head, self._head = True, 0
        self._body = self._framing = 0
        self._start("slow head", self.door.limits.head_s)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, but none that follows a body: nobody has checked those."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Count what is a body."""
        self._body += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Begin to serve; who is let in is not closed for others."""
        self._in_head = False
        self._stop("slow head")
        if len(self.pipeline) >= MOST_PIPELINED:
            msg = "too many requests wait for an answer"
            raise ValueError(msg)  # the parser stops, the client is told 400
        state: Any = self.scope["state"]
        state["let_in"] = self._let_in
        state["has_left"] = self.transport.is_closing
        super().on_headers_complete()

    def _let_in(self) -> None:
        if self._counted and "slow reader" not in self._timers:
            self.door.works(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to take the last answer."""
        super().on_response_complete()
        self._stop("slow answer")
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size() and self._counted:
                self._start("slow reader", self.door.limits.write_s)
                self.door.waits(self)
        elif self._is_idle():
            self.door.waits(self)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: whoever asks for another protocol is answered in this one."""

    def pause_writing(self) -> None:
        """Give the client some time to read; meanwhile it may be closed for others."""
        super().pause_writing()
        self._start("slow reader", self.door.limits.write_s)
        if "slow answer" not in self._timers:
            self._start("slow answer", self.door.limits.answer_s)
        self.door.waits(self)

    def resume_writing(self) -> None:
        """Go on."""
        self._stop("slow reader")
        if self._counted and not self._is_idle():
            self.door.works(self)
        super().resume_writing()

    def _is_idle(self) -> bool:
        cycle: Any = self.cycle  # none before the first request
        return cycle is None or bool(cycle.response_complete)

    def _start(self, reason: str, seconds: float) -> None:
        self._stop(reason)
        self._timers[reason] = self.loop.call_later(seconds, self._late, reason)

    def _stop(self, reason: str) -> None:
        timer = self._timers.pop(reason, None)
        if timer is not None:
            timer.cancel()

    def _late(self, reason: str) -> None:
        if reason == "slow reader" or not self.transport.is_closing():
            self.door.refuse(self, reason)


def guarded(door: Door) -> type[GuardedProtocol]:
    """Return the protocol of one server."""
    return type("GuardedProtocol", (GuardedProtocol,), {"door": door})
