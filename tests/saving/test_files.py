"""Files that are complete or not there."""

import os
from pathlib import Path

import pytest

from superarm.saving import write_atomically


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "file.npz"
    with pytest.raises(FileNotFoundError) as told:
        write_atomically(target, lambda file: file.write(b"x"))
    assert told.value.filename == str(target)
    assert "." + target.name not in str(told.value)


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def broken(_: object) -> None:
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "file", broken)
    assert not list(tmp_path.iterdir())
