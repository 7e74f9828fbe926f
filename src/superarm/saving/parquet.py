"""Tables as Parquet files: the one module that needs pyarrow (the ``experiments`` extra)."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from superarm.errors import DataError
from superarm.saving.files import write_atomically


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


def read_lists(path: Path) -> dict[str, list[Any]]:
    """Read a file into lists of plain values by column name; DataError if it is none."""
    arrow, parquet = _modules()
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        msg = f"{path} is no Parquet file: {error}"
        raise DataError(msg) from error
    return {name: table.column(name).to_pylist() for name in table.column_names}


def require_parquet() -> None:
    """Raise if Parquet files cannot be written here, saying what to install."""
    _modules()


def _modules() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        msg = "Parquet files need pyarrow: pip install 'superarm[experiments]'"
        raise ImportError(msg) from error
