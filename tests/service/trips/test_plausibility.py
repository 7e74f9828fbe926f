"""What the gate makes of a total, by itself."""

from hypothesis import given
from hypothesis import strategies as st

from parts import require_module

require_module("fastapi", "service")

from superarm.service.trips.plausibility import limits, why_not  # noqa: E402

wh = st.floats(0.6, 5_000.0)


@given(wh, wh, st.floats(1.0, 2_000.0), st.booleans())
def test_no_unit_turns_giving_into_taking(
    size: float, expected: float, std: float, taken: bool
) -> None:
    measured = size if taken else -size
    usual = -expected if taken else expected
    reason = why_not(measured, usual, std, potential=min(usual, 0.0))
    assert reason is None or "kWh" not in reason
    assert reason is None or "kJ" not in reason


def test_a_surprise_within_the_limits_after_going_downhill_is_believed() -> None:
    low, high = limits(-11.0, 15.0, -60.0)
    assert low < 53.1 < high
    assert why_not(53.1, -11.0, 15.0, -60.0) is None


@given(st.floats(100.0, 5_000.0))
def test_common_mistakes_are_named(expected: float) -> None:
    std = 0.1 * expected
    assert why_not(expected, expected, std, 0.0) is None
    assert "kJ" in (why_not(3.6 * expected, expected, std, 0.0) or "")
    assert "kWh" in (why_not(expected / 1e3, expected, std, 0.0) or "")
    assert "sign" in (why_not(-expected, expected, std, 0.0) or "")
