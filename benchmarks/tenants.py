"""One tenant beside others that ask for all they can: how long plain routes take then.

Usage: python benchmarks/run.py tenants [-- --edges 100000 --source OTHER/src --seconds 60]

Twenty keys with five connections each ask for routes with ten places on the way, alternatives, a
limit on time and a battery, again at once whatever the answer. Another key asks for plain routes.
"""

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from service import SUPERARM, Server
from superarm.roads.network import RoadNetwork, generate_city

TENANTS, CONNECTIONS = 20, 5
_PLAIN_PER_SECOND = 5.0
_AGAIN_S = 0.2


def corners(network: RoadNetwork) -> list[str]:
    """Return the edges closest to the corners of a network."""
    middles = network.junction_xy_m[network.from_junction]
    low, high = middles.min(axis=0), middles.max(axis=0)
    places = [(low[0], low[1]), (high[0], high[1]), (low[0], high[1]), (high[0], low[1])]
    far = [np.linalg.norm(middles - np.array(place), axis=1) for place in places]
    return [str(network.edge_ids[int(np.argmin(distance))]) for distance in far]


def dear_question(ends: list[str], rng: np.random.Generator) -> bytes:
    """Return a question of much work: across the network and back, ten times."""
    via = [ends[number % 2] for number in range(10)]
    battery = {"charge_wh": 1e6, "capacity_wh": 1e6, "reserve_wh": 0}
    asked = {
        "start": ends[2], "goal": ends[3], "via": via, "mode": "optimistic", "alternatives": 3,
        "max_extra_time": 0.05, "rivals": True, "battery": battery,
        "vehicle": {"mass_kg": float(rng.integers(1000, 3000))},
    }  # fmt: skip
    return json.dumps(asked).encode()


async def _attack(options: argparse.Namespace) -> Counter[int]:
    """Ask on one connection after the other's example until the time is over; count statuses."""
    statuses: Counter[int] = Counter()
    until = time.monotonic() + options.seconds
    rng = np.random.default_rng(0)

    async def one(key: str) -> None:
        while time.monotonic() < until:
            body = dear_question(options.ends, rng)
            head = (
                f"POST /v1/routes HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            reader, writer = await asyncio.open_connection("127.0.0.1", options.port)
            try:
                writer.write(head.encode() + body)
                answer = await asyncio.wait_for(reader.read(), until - time.monotonic() + 0.01)
                statuses[int(answer.split(b" ", 2)[1])] += 1
            except (TimeoutError, IndexError, ConnectionError):
                statuses[0] += 1  # not answered in the time of the measurement
            finally:
                writer.close()
            await asyncio.sleep(_AGAIN_S)

    await asyncio.gather(*(one(key) for key in options.keys for _ in range(CONNECTIONS)))
    return statuses


def plain_routes(server: Server, ids: Any, seconds: float) -> list[float]:  # noqa: ANN401 - an array
    """Ask for best routes at a steady rate and return how long each took."""
    rng, taken = np.random.default_rng(1), []
    until = due = time.monotonic()
    until += seconds
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    while (due := due + 1 / _PLAIN_PER_SECOND) < until:
        time.sleep(max(due - time.monotonic(), 0.0))
        first = int(rng.integers(len(ids) - 400))
        asked = {"start": str(ids[first]), "goal": str(ids[first + 300]), "mode": "best"}
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        connection.request("POST", "/v1/routes", json.dumps(asked), headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        taken.append(time.perf_counter() - begin)
        if answer.status != 200:
            say(f"a plain route got {answer.status}")
    return taken


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Ask alone, then beside the others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = generate_city(1, options.edges).largest_component()
        network.save(folder / "city.npz")
        server = Server(folder, folder / "city.npz", options.source, rate=500)
        keys = [_key(server, number) for number in range(TENANTS)]
        say(f"{network.n_edges:,} edges; ready after {server.start():.0f} s")
        try:
            quiet = plain_routes(server, network.edge_ids, options.seconds / 2)
            asked = {"ends": corners(network), "keys": keys, "seconds": options.seconds + 5}
            attack = subprocess.Popen(  # noqa: S603 - this script
                [sys.executable, __file__, "attack", json.dumps(asked | {"port": server.port})],
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(5.0)
            beside = plain_routes(server, network.edge_ids, options.seconds)
            statuses = json.loads(attack.communicate()[0])
        finally:
            server.stop()
    rows = [
        {
            "plain routes": when,
            "asked": len(taken),
            "p50 (ms)": 1e3 * float(np.quantile(taken, 0.5)),
            "p99 (ms)": 1e3 * float(np.quantile(taken, 0.99)),
            "most (ms)": 1e3 * max(taken),
        }
        for when, taken in (("alone", quiet), ("beside the others", beside))
    ]
    counts = ", ".join(f"{count} got {status}" for status, count in sorted(statuses.items()))
    return table(
        f"Plain routes of one key beside {TENANTS} others with {CONNECTIONS} connections each, "
        f"{network.n_edges:,} edges",
        rows,
        f"Of the others' questions {counts} (0: not answered within {options.seconds:.0f} s).",
    )


def _key(server: Server, number: int) -> str:
    made = subprocess.run(  # noqa: S603 - the project's own command
        [SUPERARM, "serve", "keys", "add", f"tenant-{number}", "--role", "read"],
        env=os.environ | {"SUPERARM_DATABASE": server.database},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return made.stdout.strip()


def main() -> None:
    """Measure, or be the process of the others."""
    if sys.argv[1:2] == ["attack"]:
        options = argparse.Namespace(**json.loads(sys.argv[2]))
        print(json.dumps(asyncio.run(_attack(options))))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--source", help="src folder of another checkout, to compare with")
    report(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
