"""Tables in, slates out: pandas and polars frames, and ids as they are.

==============================  ====================================================================
what you have                   name
==============================  ====================================================================
a table of items, and a log     `Catalogue`: learns, fits its prior, decides, explains, is saved
columns of words and numbers    `Encoder`: features of them, the same ones tomorrow
shares of so many visitors      `rate_variance`: how certain each is
==============================  ====================================================================

Needs ``pip install superarm[tables]`` (narwhals) and whichever frames you use.
"""

from superarm.tables.catalogue import Catalogue
from superarm.tables.encoding import Encoder
from superarm.tables.rates import rate_variance

__all__ = ["Catalogue", "Encoder", "rate_variance"]
