"""Published networks from the internet: fetched once, verified, kept."""

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from superarm.errors import DataError
from superarm.saving.files import write_atomically

TIMEOUT_S = 60
MOST_BYTES = 500 * 2**20


@dataclass(frozen=True)
class Published:
    """A network file that others have published."""

    title: str
    file: str
    url: str
    git_sha1: str


PUBLISHED = {
    "luxembourg": Published(
        "Luxembourg SUMO Traffic (LuST) scenario",
        "lust.net.xml",
        "https://raw.githubusercontent.com/lcodeca/LuSTScenario/master/scenario/lust.net.xml",
        "c507ce16eb340bede88ac0c8e74c19519e09409f",
    ),
    "monaco": Published(
        "Monaco SUMO Traffic (MoST) scenario",
        "most.net.xml",
        "https://raw.githubusercontent.com/lcodeca/MoSTScenario/master/scenario/in/most.net.xml",
        "6ffae75cfe63992c04a6395fbbe86cc39166140c",
    ),
}


def cache_folder() -> Path:
    """Where fetched files are kept: SUPERARM_CACHE, or a folder of the user's cache."""
    if given := os.environ.get("SUPERARM_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "superarm"


def fetch(name: str, *, url: str | None = None) -> Path:
    """Return the path of a published network, downloading it if it is not there yet.

    Args:
        name: "luxembourg" or "monaco".
        url: another place to get the same file from.
    """
    if name not in PUBLISHED:
        msg = f"no published network {name!r}; there are {sorted(PUBLISHED)}"
        raise ValueError(msg)
    published = PUBLISHED[name]
    target = cache_folder() / published.file
    if target.is_file():
        _verify(published, target.read_bytes(), str(target))
        return target
    address = url or published.url
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:  # noqa: S310 - http(s)
            content: bytes = answer.read(MOST_BYTES + 1)
    except (urllib.error.URLError, OSError) as error:
        msg = (
            f"could not download {address}: {error}. Download {published.file} of the "
            f"{published.title} by hand and put it at {target}"
        )
        raise DataError(msg) from error
    _verify(published, content, address)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, lambda file: file.write(content))
    return target


def _verify(published: Published, content: bytes, where: str) -> None:
    # the checksum by which git knows the file
    digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if digest != published.git_sha1:
        msg = (
            f"{where} is not the published {published.file}: its git SHA-1 is {digest}, "
            f"expected {published.git_sha1}; remove it and fetch it again"
        )
        raise DataError(msg)
