"""Which arms are inducing in Algorithm 3."""

import numpy as np

from superarm.arrays import Rows, Vector


def most_visited(counts: Vector, variance: Vector, incumbents: Rows, most: int) -> Rows:
    """Choose the most visited arms, filled up with those of greatest prior variance.

    Among arms with equal counts those that are chosen already come first, so that arms do not come
    and go without reason; chosen ones keep their place, new ones take the places left.

    Args:
        counts: visits of all arms, shape (n,).
        variance: prior variances, shape (n,).
        incumbents: the arms chosen before, in their places.
        most: how many to choose.
    """
    held = np.zeros(counts.size, dtype=np.bool_)
    held[incumbents] = counts[incumbents] > 0  # a filler has no claim
    order = np.lexsort((-variance, ~held, -counts))
    best = np.zeros(counts.size, dtype=np.bool_)
    best[order[:most]] = True
    stay = incumbents[best[incumbents]]
    best[stay] = False
    places = np.full(most, -1, dtype=np.intp)
    places[: incumbents.size][np.isin(incumbents, stay)] = stay
    places[places < 0] = [arm for arm in order[:most] if best[arm]]
    return places
