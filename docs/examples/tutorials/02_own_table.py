"""Pick 10 of 2,000 every day
==========================

A shop shows 10 of its 2,000 items every day. What is known of an item is a row of a table; what it earns is the share of
its visitors that click, and that is known three days later. This page goes from two CSV files to slates that are hard to
beat, without naming a single number of the model.

*Needs* ``pip install "superarm[tables]" pandas``. *Takes* fifteen minutes to read, half a minute to run.

The files are made up here: ``superarm.problems.ClickRates`` is a shop whose truth is known, so that the end of this page can
say what was lost. Put your own in their place.
"""

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np
import pandas as pd

from superarm.adapting import ContradictionWarning, Forgetting, Watched
from superarm.evaluation import plot_calibration
from superarm.problems import ClickRates
from superarm.tables import Catalogue, rate_variance

folder = Path(tempfile.mkdtemp())  # for the files of this page

rng = np.random.default_rng(7)
shop = ClickRates.sample(rng)
known = ["price", "age_days", "rating", "photos", "discount", "weight_kg"]
sku = [f"sku-{number:04d}" for number in range(2_000)]
pd.DataFrame(shop.items.contexts, columns=known).assign(sku=sku).to_csv(
    folder / "items.csv", index=False
)
shown, rates = shop.history(600, rng)  # what was shown at random before
history = {"sku": [sku[i] for i in shown.ids], "clicks": rates * shop.visitors}
pd.DataFrame(history).assign(visitors=shop.visitors).to_csv(folder / "log.csv", index=False)

# %%
# Fit, and check
# --------------
#
# One row per item, one row per reward; items may repeat in the log. A rate is the more certain the more visitors it is of:
# ``rate_variance`` says how certain. ``fitted`` finds one lengthscale per feature, the variance, the mean, and how much more than
# chance rates scatter. Before you believe it, compare what was not learned with what is predicted of it:

items, log = pd.read_csv(folder / "items.csv"), pd.read_csv(folder / "log.csv")
log["rate"] = log.clicks / log.visitors
log["variance"] = rate_variance(log.clicks, log.visitors)
columns = {"reward": "rate", "noise_variance": "variance"}

empty = Catalogue.of(items, ids="sku")
trial, found = empty.learn(log[:400], **columns).fitted()
print(found)
lengthscales = found.figure(list(trial.encoder.features))
lengthscales

# %%
# Price matters most; weight and discount do not (their lengthscales are long), and nobody had to say so.

check = trial.checked(log[400:], **columns)
print(check)
assert check.is_right
calibration = plot_calibration(check)
calibration

# %%
# Predictions are as sure as they claim: the blue line stays within chance. Now with all of the history:

catalogue, found = empty.learn(log, **columns).fitted()

# %%
# Decide every day, learn three days later
# ----------------------------------------
#
# ``Watched`` compares the rewards of every slate with what was predicted of them, and says so if they contradict it beyond
# chance. Every evening the catalogue is saved with all that it knows, and read again in the morning; slates that are still
# under way are remembered by their day.

catalogue = catalogue.with_agent(Watched(catalogue.agent))
catalogue.save(folder / "tonight")
under_way, lost = [], []


def live(shop, day):
    """Show a slate; learn what the one of three days ago has earned."""
    catalogue = Catalogue.load(folder / "tonight")
    slate = catalogue.decide(items, 10, rng, day=day)  # of what is on offer today
    under_way.append((slate, shop.visitors * shop.shown(slate.rows, rng)))
    if len(under_way) > 3:
        earlier, clicks = under_way.pop(0)
        variance = rate_variance(clicks, shop.visitors)
        catalogue = catalogue.after(earlier, clicks / shop.visitors, noise_variance=variance)
    catalogue.save(folder / "tonight")
    lost.append(np.sort(shop.rates)[-10:].sum() - shop.rates[slate.rows].sum())
    return catalogue


for day in range(1, 31):
    catalogue = live(shop, day)

at_random = 30 * 10 * (np.sort(shop.rates)[-10:].mean() - shop.rates.mean())
print(f"lost {sum(lost):.2f} in 30 days; showing any ten items loses {at_random:.1f}")
print(catalogue.agent.health)
print(catalogue.explain(items.head(3)))  # mean, interval, how often seen
assert catalogue.agent.health.is_well
assert sum(lost) < at_random / 8

# %%
# The day the world changes
# -------------------------
#
# On day 31 people want something else. Nothing in the code is told; the rewards of that day come on day 34, and
# ``ContradictionWarning`` appears once:

another = ClickRates(shop.items, ClickRates.sample(rng).rates[::-1].copy())
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always", ContradictionWarning)
    for day in range(31, 61):
        catalogue = live(another, day)
        if not catalogue.agent.health.is_well:
            break
print(f"day {day}: {said[0].message}")
assert len(said) == 1

# %%
# What is old counts for less from now on, until the new taste is known; or begin again with ``Catalogue.of`` and a new log:

forgetting = catalogue.with_agent(Forgetting(catalogue.agent.agent, keep=0.8, now=day))
slate = forgetting.decide(items, 10, rng, day=day + 1)

# %%
# What it is worth
# ----------------
#
# Regret of 60 days (summed click rates lost; rewards three days late as above), in shops that this was not made for:
#
# .. list-table::
#    :header-rows: 1
#
#    * - prior
#      - regret
#      - alarms, of five shops
#    * - none: any ten items
#      - 29.8
#      -
#    * - a guess: ``Matern52(0.5)``, noise variance 0.01
#      - 30.4
#      - 5
#    * - fitted to 600 rows, one noise variance for all
#      - 1.44
#      - 5
#    * - fitted to 600 rows, as above
#      - 1.39
#      - 0
#    * - the best fitted prior: of 6,000 rows of the same shop
#      - 1.09
#      - 0
#
# (:doc:`every shop </measured/shop>`.) A guess on the wrong scale is no better than chance, and is told so. One noise
# variance for all items is contradicted, and rightly: the best items have the highest rates, whose noise is twice that of
# others; it costs little here, but an alarm that always rings is none.
#
# More on fitting, on priors that are chosen while you play, and on what is noticed: :doc:`priors that are learned </how-to/priors>`.
