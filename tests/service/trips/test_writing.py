"""Writing together, being busy, and how often a key may ask."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts import require_module
from strategies import finite

require_module("fastapi", "service")

from superarm.service.http.rates import RateLimit  # noqa: E402
from superarm.service.trips.intake import Checked  # noqa: E402
from superarm.service.trips.schemas import TripOutcome  # noqa: E402
from superarm.service.trips.writing import BusyError, Writer  # noqa: E402


class _Store:
    """Accepts everything but 'bad', when it is let."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[int] = []
        self.kept: list[str] = []

    def keep(self, items: Any) -> list[TripOutcome]:
        self.gate.wait()
        self.batches.append(len(items))
        names = [item.key_id for item in items]
        if "bad" in names:
            raise OSError
        self.kept += names
        return [TripOutcome(trip_id=name, status="accepted") for name in names]


def item(name: str) -> Any:
    return Checked(name, name, None, "", {})  # type: ignore[arg-type]


def test_whatever_waits_is_committed_together_and_one_bad_item_hurts_nobody() -> None:
    store = _Store()
    woken: list[Any] = []
    writer = Writer(store, woken.append, lambda _: None, most_waiting=50)  # type: ignore[arg-type]

    async def report() -> list[Any]:
        names = [*(f"t{i}" for i in range(20)), "bad", "last"]
        tasks = [asyncio.create_task(writer.keep([item(name)])) for name in names]
        await asyncio.sleep(0.05)
        store.gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(report())
    writer.close()
    bad = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(error) for error in bad] == [OSError]
    assert len(store.kept) == 21
    assert max(store.batches) > 10
    assert woken


def test_what_fails_after_a_commit_leaves_the_writer_alive() -> None:
    store = _Store()
    store.gate.set()

    def broken(_: object) -> None:
        raise OSError

    writer = Writer(store, broken, lambda _: None)  # type: ignore[arg-type]

    async def report() -> None:
        for name in ("one", "two"):
            outcome = await asyncio.wait_for(writer.keep([item(name)]), 5)
            assert outcome[0].status == "accepted"

    asyncio.run(report())
    assert writer.alive
    writer.close()


def test_beyond_its_limit_the_queue_turns_people_away() -> None:
    store = _Store()
    writer = Writer(store, lambda _: None, lambda _: None, most_waiting=5)  # type: ignore[arg-type]

    async def report() -> None:
        waiting = [asyncio.create_task(writer.keep([item(f"t{i}")])) for i in range(5)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await writer.keep([item("a"), item("b")])
        store.gate.set()
        await asyncio.gather(*waiting)

    asyncio.run(report())
    writer.close()
    assert sorted(store.kept) == [f"t{i}" for i in range(5)]


@given(finite(0.5, 50), finite(1, 100), st.lists(finite(0, 3), min_size=1, max_size=60))
def test_no_key_gets_more_than_its_rate(rate: float, burst: float, gaps: list[float]) -> None:
    now = [0.0]
    limit = RateLimit(rate, burst, clock=lambda: now[0])
    passed = 0
    for gap in gaps:
        now[0] += gap
        wait = limit.wait_s("a")
        passed += wait == 0
        assert passed <= burst + rate * now[0] + 1
        if wait:
            later = RateLimit(rate, burst, clock=lambda: now[0])
            assert later.wait_s("another") == 0  # keys do not share
            now[0] += wait
            assert limit.wait_s("a") == 0  # the time told is enough
            passed += 1
