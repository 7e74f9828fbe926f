"""The page and its files: packed once, and known again by who has them already."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request, Response

from superarm.service.http.access import PUBLIC
from superarm.service.http.gate import policy_with
from superarm.service.http.refused import Refused
from superarm.service.http.state import Settings

PAGE = Path(__file__).parent / "page"


@dataclass(frozen=True)
class Asset:
    """Content that does not change while the server runs, packed once."""

    plain: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, plain: bytes, kind: str) -> "Asset":
        """Pack some content."""
        digest = hashlib.sha256(plain).hexdigest()[:32]
        return cls(plain, gzip.compress(plain, 6, mtime=0), kind, f'"{digest}"')

    @classmethod
    def of_file(cls, path: Path) -> "Asset":
        """Read a file."""
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        kind = "text/javascript" if path.suffix in {".js", ".mjs"} else kind
        return cls.of(path.read_bytes(), kind)

    def answer(self, request: Request) -> Response:
        """Return the file, packed if the client can unpack it, or say that it has not changed."""
        headers = {"cache-control": "no-cache", "etag": self.tag, "vary": "accept-encoding"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(self.packed, media_type=self.kind, headers=headers)
        return Response(self.plain, media_type=self.kind, headers=headers)


def add_page(app: FastAPI, settings: Settings) -> None:
    """Add the page and its files."""
    files = {
        path.relative_to(PAGE).as_posix(): Asset.of_file(path)
        for path in PAGE.rglob("*")
        if path.is_file()
    }

    @app.get("/", include_in_schema=False, dependencies=[PUBLIC])
    async def page(request: Request) -> Response:
        answer = files["index.html"].answer(request)
        if settings.tiles is not None:
            answer.headers["content-security-policy"] = policy_with(settings.tiles)
        return answer

    @app.get("/page/settings.json", include_in_schema=False, dependencies=[PUBLIC])
    async def page_settings() -> dict[str, bool | str | None]:
        tiles = {"tiles": settings.tiles, "attribution": settings.tiles_attribution}
        return {"demo": settings.demo} | tiles

    @app.get("/page/{name:path}", include_in_schema=False, dependencies=[PUBLIC])
    async def asset(request: Request, name: str) -> Response:
        if name not in files:
            raise Refused(404, f"there is no file {name!r}")
        return files[name].answer(request)
