"""Tables in, slates out: pandas and polars frames, and ids as they are.

Needs ``pip install superarm[tables]`` (narwhals) and whichever frames you use.
"""

from superarm.tables.catalogue import Catalogue
from superarm.tables.encoding import Encoder
from superarm.tables.rates import rate_variance

__all__ = ["Catalogue", "Encoder", "rate_variance"]
