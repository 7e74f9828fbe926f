"""Starting the service."""

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from superarm.errors import DataError
from superarm.service.demo import add_demo
from superarm.service.http.app import make_app
from superarm.service.http.connections import Door, guarded
from superarm.service.http.logs import log_as_json
from superarm.service.http.state import ServiceState, Settings

DRAIN_S = 20
SWITCH_S = 0.0005
"""How long one thread may keep others waiting: requests go through three of them."""

SEND_BUFFER = 128 * 2**10
"""Bytes of answers that the system holds for one connection, which it may double. By itself it
takes some megabytes of an answer that nobody reads."""

KEEP_ALIVE_S = 75
"""Longer than proxies keep theirs, so that none sends a request into a closing connection."""


def serve(
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log_level: str = "info",
    listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was begun, write a snapshot, and return.

    Args:
        settings: what to serve.
        host: address to listen on.
        port: zero for any that is free.
        log_level: ``"info"`` logs every request, ``"warning"`` only what is unusual.
        listening: called with the URL when the port is open.
    """
    if settings.demo and not _is_loopback(host):
        msg = f"a demo knows no keys and listens on this machine only, not on {host}"
        raise DataError(msg)
    log_as_json(log_level)
    sys.setswitchinterval(SWITCH_S)
    state = ServiceState(settings)
    app = make_app(state, add_demo if settings.demo else None)
    config = uvicorn.Config(
        app,
        http=guarded(Door(settings.limits, state.metrics)),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=2048,
    )
    with listening_socket(host, port) as sock:
        number = sock.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        if listening is not None:
            listening(f"http://{shown}:{number}")
        with _signals_end_quietly():
            uvicorn.Server(config).run(sockets=[sock])


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Let signals that the server has obeyed do nothing more when it passes them on afterwards."""
    before = {
        number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; zero is any port that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # connections inherit it
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        msg = f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        raise DataError(msg) from error
    return sock


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
