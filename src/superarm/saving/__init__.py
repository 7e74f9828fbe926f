"""Any value to a file and back: versioned, checked, without pickle.

`superarm.save` and `superarm.load` are for agents; `save_value` and `load_value` for whatever else
is a value: a belief, a kernel, a posterior, a dictionary of them.
"""

from superarm.saving.files import write_atomically
from superarm.saving.runs import SavedRun, load, save
from superarm.saving.stored import Stored
from superarm.saving.values import load_value, save_value

__all__ = ["SavedRun", "Stored", "load", "load_value", "save", "save_value", "write_atomically"]
