"""Information gain of a long run: greedy picks and the certified bound, small and large."""

import time
from typing import Any

from common import NOISE_VARIANCE, kernel, peak_mib, points, report, say, table

from superarm.arrays import Matrix
from superarm.theory import greedy_information_gain, information_gain_bounds

SIZES = ((30, 60), (600, 1_500), (6_000, 35_000))
"""Arms and picks; the last is a navigation run of T = 500 trips of 70 edges."""


def main() -> None:
    """Time both, and say what they enclose."""
    rows: list[dict[str, Any]] = []
    for n_arms, picks in SIZES:
        say(f"{picks} picks among {n_arms} arms")
        rows.append(_row(kernel().gram(points(n_arms), points(n_arms)), picks))
    report(
        table(
            "Maximal information gain of T K rewards",
            rows,
            "CPU seconds. The upper bound is the dual one of the relaxed design; beside it what",
            "the share of greedy picks alone would certify.",
        )
    )


def _row(gram: Matrix, picks: int) -> dict[str, Any]:
    begin = time.process_time()
    greedy = greedy_information_gain(gram, NOISE_VARIANCE, picks)
    middle = time.process_time()
    bounds = information_gain_bounds(gram, NOISE_VARIANCE, picks)
    return {
        "arms": gram.shape[0],
        "picks": picks,
        "greedy (s)": middle - begin,
        "both bounds (s)": time.process_time() - middle,
        "lower (nats)": bounds.lower,
        "upper (nats)": bounds.upper,
        "gap (%)": 100 * bounds.gap / bounds.upper,
        "greedy / (1 - 1/e)": greedy.upper,
        "peak MiB": peak_mib(),
    }


if __name__ == "__main__":
    main()
