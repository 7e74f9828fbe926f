"""Tables as Parquet files: the one module that needs pyarrow (the ``experiments`` extra)."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from superarm.errors import DataError
from superarm.saving.compressed import (
    MORE,
    MOST_BYTES,
    require_file,
    require_unpacked,
)
from superarm.saving.files import write_atomically

_ROWS = 10_000  # that are unpacked at once


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length, arrays or lists of texts, to a file, atomically."""
    arrow, parquet = _modules()
    table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
    write_atomically(path, lambda file: parquet.write_table(table, file, compression="zstd"))


def read_columns(path: Path) -> dict[str, Any]:
    """Read a file into arrays by column name."""
    _, parquet = _modules()
    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def read_lists(path: Path, most_bytes: int = MOST_BYTES, more: str = MORE) -> dict[str, list[Any]]:
    """Read a file into lists of plain values by column name; DataError if it is none.

    Args:
        path: the file.
        most_bytes: the limit on unpacked bytes; a value counts as eight at least.
        more: what its error says about allowing more.
    """
    arrow, parquet = _modules()
    require_file(path)
    total = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns: dict[str, list[Any]] = {name: [] for name in names}
            if len(columns) < len(names):
                msg = f"{path} has columns of the same name"
                raise DataError(msg)
            for batch in file.iter_batches(_ROWS):
                total += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
                require_unpacked(path, total, most_bytes, more)
                for name, values in zip(names, batch.columns, strict=True):
                    columns[name] += values.to_pylist()
    except (OSError, arrow.ArrowException) as error:
        msg = f"{path} is no Parquet file: {error}"
        raise DataError(msg) from error
    return columns


def require_parquet() -> None:
    """Raise if Parquet files cannot be written here, saying what to install."""
    _modules()


def _modules() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        msg = "Parquet files need pyarrow: pip install 'superarm[experiments]'"
        raise ImportError(msg) from error
