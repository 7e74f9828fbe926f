"""Any value to a file and back: versioned, checked, without pickle.

==========================================================  ========================================
what you keep                                               name
==========================================================  ========================================
an agent, with its round and generators, to go on later     `superarm.save`, `superarm.load`
a belief, a kernel, a posterior, a dictionary of them       `save_value`, `load_value`
a file of your own that is complete if it exists            `write_atomically`
==========================================================  ========================================
"""

from superarm.saving.encoding import Stored
from superarm.saving.files import write_atomically
from superarm.saving.runs import SavedRun, load, save
from superarm.saving.values import load_value, save_value

__all__ = ["SavedRun", "Stored", "load", "load_value", "save", "save_value", "write_atomically"]
