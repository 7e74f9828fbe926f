"""Files that are complete or not there: write beside, then rename."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it appears complete, durably, or not at all."""
    target = Path(path)
    # a name nobody else has, with the permissions files of this user have
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb+") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename == str(temporary):  # name what was asked for, not our detour
            raise type(error)(error.errno, error.strerror, str(target)) from error
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make renames within a folder durable, where the system offers that."""
    if os.name == "posix":  # a rename is durable when its folder is; Windows has no such call
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
