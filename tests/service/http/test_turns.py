"""Questions share one processor by turns: nobody's long question keeps others waiting."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from parts import require_module

require_module("fastapi", "service")

from superarm import WorkLimitError  # noqa: E402 - where it is installed
from superarm.pausing import computed_once, pause  # noqa: E402
from superarm.service.http.turns import (  # noqa: E402
    MOST_LONG,
    MOST_LONG_WAITING,
    SLICE_S,
    FullError,
    Turns,
    Work,
)


def burn(seconds: float) -> None:
    """Take processor time, with pauses."""
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        pause(1)


def long() -> Work:
    return Work(is_long=True)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - threads set no event of a loop
        await asyncio.sleep(0.001)


def test_a_short_question_is_answered_while_a_long_one_goes_on() -> None:
    began, stop = threading.Event(), threading.Event()

    def goes_on() -> None:
        began.set()
        while not stop.is_set():
            burn(SLICE_S)

    async def play() -> None:
        turns = Turns("test", most=10)
        endless = asyncio.create_task(turns.run("greedy", goes_on, long()))
        await until(began.is_set)
        for _ in range(5):
            assert await turns.run("modest", lambda: 1) == 1
        assert not endless.done()
        stop.set()
        await endless
        turns.close()

    asyncio.run(play())


def test_one_question_computes_at_a_time_and_all_of_them_end() -> None:
    computing: list[str] = []
    at_once: list[int] = []

    def watched(name: str) -> str:
        for _ in range(3):
            computing.append(name)
            at_once.append(len(computing))
            burn(0)
            computing.remove(name)
            burn(2 * SLICE_S)
        return name

    async def play() -> list[str]:
        turns = Turns("test", most=50)
        asked = [turns.run(str(n % 3), lambda n=n: watched(str(n)), long()) for n in range(6)]  # type: ignore[misc]
        answers = await asyncio.gather(*asked)
        turns.close()
        return list(answers)

    assert asyncio.run(play()) == [str(n) for n in range(6)]
    assert set(at_once) == {1}


def test_keys_share_processor_time_not_questions() -> None:
    """Three long questions of one key get together what one of another key gets."""
    turns_had: Counter[str] = Counter()
    stop = threading.Event()

    def counted(key: str) -> None:
        while not stop.is_set():
            burn(SLICE_S)
            turns_had[key] += 1

    async def play() -> None:
        turns = Turns("test", most=50)
        keys = ["many", "many", "many", "one"]
        asked = [
            asyncio.create_task(turns.run(key, lambda key=key: counted(key), long()))  # type: ignore[misc]
            for key in keys
        ]
        await until(lambda: min(turns_had["many"], turns_had["one"]) >= 20)
        stop.set()
        await asyncio.gather(*asked)
        turns.close()

    asyncio.run(play())
    assert turns_had["many"] <= 1.5 * turns_had["one"]
    assert turns_had["one"] <= 1.5 * turns_had["many"]


def test_long_questions_are_turned_away_before_short_ones_wait() -> None:
    stop = threading.Event()

    def goes_on() -> None:
        while not stop.is_set():
            burn(SLICE_S)

    async def play() -> None:
        turns = Turns("test", most=10)
        most = MOST_LONG + MOST_LONG_WAITING
        accepted, refused = [], 0
        for number in range(3 * most):
            asked = asyncio.create_task(turns.run(f"key {number}", goes_on, long()))
            await asyncio.sleep(0)
            if asked.done():
                with pytest.raises(FullError):
                    asked.result()
                refused += 1
            else:
                accepted.append(asked)
        assert len(accepted) <= most
        assert refused >= most
        assert await turns.run("modest", lambda: 1) == 1
        stop.set()
        await asyncio.gather(*accepted)
        turns.close()

    asyncio.run(play())


def test_work_beyond_the_limit_ends_with_an_error_and_some_grace() -> None:
    work, graces = Work(most=1_000), 0

    def too_much() -> None:
        nonlocal graces
        try:
            while True:
                pause(10)
        except WorkLimitError:
            graces += 1
        pause(100)  # an answer is put together from what was found
        graces += 1
        while True:
            pause(10)

    async def play() -> None:
        turns = Turns("test", most=10)
        with pytest.raises(WorkLimitError, match="fewer places on the way"):
            await turns.run("key", too_much, work)
        assert await turns.run("key", lambda: 1) == 1
        turns.close()

    asyncio.run(play())
    assert graces == 2
    assert 1_250 <= work.visited <= 1_300


def test_what_nobody_waits_for_any_more_stops() -> None:
    began = threading.Event()

    def endless() -> None:
        began.set()
        while True:
            burn(SLICE_S)

    async def play() -> None:
        turns = Turns("test", most=10)
        asked = asyncio.create_task(turns.run("key", endless, long()))
        await until(began.is_set)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await turns.run("key", lambda: 1) == 1
        turns.close()  # waits for all that compute

    asyncio.run(play())


def test_properties_that_pause_do_not_keep_others_from_going_on() -> None:
    class Answer:
        def __init__(self, value: int) -> None:
            self.value = value

        @computed_once
        def slowly(self) -> int:
            burn(3 * SLICE_S)
            return self.value

    async def play() -> list[int]:
        turns = Turns("test", most=10)
        answers = [Answer(number) for number in range(3)]
        asked = [turns.run("key", lambda one=one: one.slowly + one.slowly) for one in answers]  # type: ignore[misc]
        totals = await asyncio.gather(*asked)
        turns.close()
        return list(totals)

    assert asyncio.run(play()) == [0, 2, 4]
