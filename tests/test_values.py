"""Values put together from parts."""

import numpy as np
import pytest

from strategies import random_arms
from superarm import Arms
from superarm.beliefs import FiniteGP
from superarm.kernels import RBF
from superarm.values import changed


def test_a_field_that_does_not_exist_is_refused() -> None:
    belief = FiniteGP.from_kernel(random_arms(5, 2, seed=0), RBF())
    with pytest.raises(
        TypeError, match="FiniteGP has no field 'count'; its fields are prior, rows"
    ):
        changed(belief, count=np.ones(3))


def test_known_fields_are_replaced_and_the_old_value_stays() -> None:
    arms = Arms([1, 2])
    other = changed(arms, ids=np.array([5, 6]))
    assert other.ids.tolist() == [5, 6]
    assert arms.ids.tolist() == [1, 2]
