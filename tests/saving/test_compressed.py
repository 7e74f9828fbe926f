"""Packed files are read as what they hold, up to a limit."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from superarm import DataError
from superarm.saving.compressed import open_packed, open_table, unpack

PACKINGS = [bytes, gzip.compress, bz2.compress]


@pytest.mark.parametrize("pack", PACKINGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary().filter(lambda data: data[:2] != b"\x1f\x8b" and data[:3] != b"BZh"))
def test_reading_undoes_packing(
    tmp_path: Path, pack: Callable[[bytes], bytes], content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(content))
    with open_packed(path, len(content)) as file:
        assert file.read() == content
    unpack(path, tmp_path / "plain", len(content))
    assert (tmp_path / "plain").read_bytes() == content


@pytest.mark.parametrize("pack", PACKINGS)
def test_one_byte_more_than_the_limit_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(bytes(3_000_000)))
    with open_packed(path, 2_999_999) as file, pytest.raises(DataError, match="2,999,999 bytes"):
        file.read()
    with open_table(path, 2_999_999) as file, pytest.raises(DataError, match="2,999,999 bytes"):
        file.read()


@pytest.mark.parametrize("pack", PACKINGS[1:])
@pytest.mark.parametrize("cut", [10, 500, -1])
def test_what_is_cut_short_is_damaged(
    tmp_path: Path, pack: Callable[[bytes], bytes], cut: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(str(list(range(10_000))).encode())[:cut])
    with open_packed(path) as file, pytest.raises(DataError, match="file is damaged"):
        file.read()


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file .*check the path"):
        open_packed(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_packed(tmp_path)  # a folder


def test_tables_may_begin_with_the_mark_of_excel(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n")
    with open_table(tmp_path / "a.csv") as file:
        assert file.read() == "x,y\r\n1,2\r\n"
