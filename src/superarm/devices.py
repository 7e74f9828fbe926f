"""Arrays on another device, by PyTorch (the extra `torch`): the one module that knows of it."""

import importlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Remote: TypeAlias = Any
"""An array on a device; it is indexed, added and multiplied as those of NumPy are."""


@dataclass(frozen=True)
class Device:
    """A place for arrays, such as ``cuda``, ``cuda:1`` or ``cpu``.

    Args:
        name: as PyTorch names it.
    """

    name: str

    def __post_init__(self) -> None:
        """Refuse a device that is not there."""
        try:
            self.put(np.zeros(1))
        except (RuntimeError, AssertionError) as error:  # torch has no error of its own
            msg = f"there is no device {self.name!r}: {str(error).splitlines()[0]}"
            raise ValueError(msg) from error

    @cached_property
    def torch(self) -> Any:  # noqa: ANN401 - a module without types
        """PyTorch itself."""
        try:
            return importlib.import_module("torch")
        except ImportError as error:
            msg = "arrays on a device need PyTorch: pip install 'superarm[torch]'"
            raise ModuleNotFoundError(msg) from error

    def put(self, array: np.ndarray[Any, Any]) -> Remote:
        """Return a copy on the device, floats in double precision."""
        torch, host = self.torch, np.ascontiguousarray(array)
        with warnings.catch_warnings():  # of arrays that are not to be written to: this is a copy
            warnings.simplefilter("ignore")
            found = torch.from_numpy(host).to(self.name, copy=True)
        if found.is_floating_point():
            return found.to(torch.float64)
        return found.to(torch.int64)

    def get(self, array: Remote) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a copy as NumPy has it, in double precision."""
        found: np.ndarray[Any, np.dtype[np.float64]] = array.double().cpu().numpy()
        return found

    def fetched(self, array: Remote) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a copy as NumPy has it, in memory from which a GPU reads at full speed."""
        if not self.name.startswith("cuda"):
            return self.get(array)
        host = self.torch.empty(array.shape, dtype=self.torch.float64, pin_memory=True)
        host.copy_(array)
        found: np.ndarray[Any, np.dtype[np.float64]] = host.numpy()
        return found

    def zeros(self, *shape: int) -> Remote:
        """Return zeros in double precision."""
        return self.torch.zeros(shape, dtype=self.torch.float64, device=self.name)

    def empty(self, *shape: int) -> Remote:
        """Return room in double precision."""
        return self.torch.empty(shape, dtype=self.torch.float64, device=self.name)

    def wait(self) -> None:
        """Return when everything that was asked for is done."""
        if self.name.startswith("cuda"):
            self.torch.cuda.synchronize(self.name)
