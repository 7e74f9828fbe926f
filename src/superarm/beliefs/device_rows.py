"""Kernel rows on another device: what costs time with many arms is done there."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs.rows import Block, Combination, KernelRows, Ready, RowSource
from superarm.devices import Device, Remote
from superarm.gaussian import clipped_variance

_BLOCK_BYTES = 4 * 2**30
_FEWEST_ROWS = 64


@dataclass(frozen=True, eq=False)
class DeviceRows(KernelRows):
    """The rows of a `KernelRows`, on a device; made by `on`."""

    device: Device = field(default_factory=lambda: Device("cpu"))
    parts: tuple[Block, ...] = ()

    @classmethod
    def on(cls, name: str, n_columns: int) -> "DeviceRows":
        """Return no rows, on a device."""
        return cls(n_columns, device=Device(name))

    def nothing(self) -> "DeviceRows":
        """Return no rows of the same kind."""
        return DeviceRows(self.n_columns, device=self.device)

    def append(self, source: RowSource, rows: Rows) -> "DeviceRows":
        """Return a view with new rows, filled from the source."""
        if not rows.size:
            return self
        if isinstance(source, Combination) and isinstance(source.base, DeviceRows):
            fresh = source.base.combined(self.device.put(source.coefficients[rows]))
        else:
            host = np.empty((rows.size, self.n_columns))
            source.fill(rows, host)
            fresh = self.device.put(host)
        parts, begin, end = list(self.parts), self.length, self.length + rows.size
        while begin < end:
            inside = begin % self._capacity
            count = min(self._capacity - inside, end - begin)
            if inside == 0:
                parts.append(Block(self._room(), count))
            elif not parts[-1].claim(inside, inside + count):
                fork = Block(self._room(), inside + count)
                fork.data[:inside] = parts[-1].data[:inside]
                parts[-1] = fork
            taken = begin - self.length
            parts[-1].data[inside : inside + count] = fresh[taken : taken + count]
            begin += count
        return DeviceRows(self.n_columns, end, device=self.device, parts=tuple(parts))

    def combined(self, coefficients: Remote) -> Remote:
        """Return coefficients (m, length) on the device times the rows, all columns."""
        total = None
        for begin, data in self._pieces():
            some = coefficients[:, begin : begin + data.shape[0]]
            total = some @ data if total is None else total.addmm_(some, data)
        if total is None:
            return self.device.zeros(coefficients.shape[0], self.n_columns)
        return total

    def combine(self, coefficients: Matrix, columns: slice) -> Matrix:
        """Return coefficients (m, length) times the rows, at a range of columns."""
        given, total = self.device.put(coefficients), None
        for begin, data in self._pieces():
            found = given[:, begin : begin + data.shape[0]] @ data[:, columns]
            total = found if total is None else total + found
        size = len(range(*columns.indices(self.n_columns)))
        return np.zeros((coefficients.shape[0], size)) if total is None else self.device.get(total)

    def moved(
        self,
        coefficients: Matrix,
        surprise: Vector,
        mean: Vector,
        variance: Vector,
        prior_variance: Vector,
    ) -> tuple[Vector, Vector]:
        """Return the means and variances after what combinations say; see `KernelRows.moved`."""
        device = self.device
        moves = self.combined(device.put(coefficients))
        later = device.put(mean).addmv_(moves.T, device.put(surprise))
        left = device.put(variance).sub_(moves.square_().sum(0))
        rounded = bool(left.numel()) and bool(left.min() < 0)
        means, variances = device.fetched(later), device.fetched(left)
        return means, clipped_variance(variances, prior_variance) if rounded else variances

    def entries(self, slots: Rows, columns: Rows) -> Matrix:
        """Return the entries at some rows and columns, shape (len(slots), len(columns))."""
        picked, where = np.empty((slots.size, columns.size)), self.device.put(columns)
        for begin, data in self._pieces():
            inside = slots - begin
            mine = np.flatnonzero((inside >= 0) & (inside < data.shape[0]))
            if mine.size:
                which = self.device.put(inside[mine])
                picked[mine] = self.device.get(data[which[:, None], where[None, :]])
        return picked

    def matrix(self) -> Matrix:
        """Return a copy of all rows in main memory."""
        parts = [self.device.get(data) for _, data in self._pieces()]
        return np.concatenate(parts) if parts else np.empty((0, self.n_columns))

    def stored(self) -> dict[str, object]:
        """Return the rows without their spare storage, and where they were."""
        return {"rows": self.matrix(), "device": self.device.name}

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "DeviceRows":
        """Return rows as they were, on the same device."""
        rows, empty = parts["rows"], cls.on(parts["device"], parts["rows"].shape[1])
        return empty.append(Ready(rows), np.arange(rows.shape[0]))

    @property
    def _capacity(self) -> int:
        rows = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * self.n_columns))
        return int(min(rows, max(self.n_columns, 1)))

    def _room(self) -> Remote:
        return self.device.empty(self._capacity, self.n_columns)

    def _pieces(self) -> list[tuple[int, Remote]]:
        """Return where pieces of the rows begin, and these."""
        begins = [number * self._capacity for number in range(len(self.parts))]
        return [
            (begin, part.data[: self.length - begin])
            for begin, part in zip(begins, self.parts, strict=True)
        ]
