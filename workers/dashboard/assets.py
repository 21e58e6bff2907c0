"""Serves the files of the page: a fixed table, read once, under one version in their URL.

They are sent without what only readers of the source need: lines of comment, and indents; what
others hand out too is sent word for word. The version is a digest of all files and stands in the
path before the name, so that a module's own `import "./stream.js"` carries it too, and a browser
may keep every file for ever.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Final

from kernel import proof
from workers import dashboard

MEDIA_TYPES = {
    "brush.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "shell.js": "text/javascript; charset=utf-8",
    "hub.js": "text/javascript; charset=utf-8",
    "proof_file.mjs": "text/javascript; charset=utf-8",
    "review.js": "text/javascript; charset=utf-8",
    "session.js": "text/javascript; charset=utf-8",
    "stream.js": "text/javascript; charset=utf-8",
    "subtle.js": "text/javascript; charset=utf-8",
    "verification.js": "text/javascript; charset=utf-8",
    "verify.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "alert.svg": "image/svg+xml",
}

_OF_THE_KERNEL: dict[str, ModuleType] = {"proof_file.mjs": proof}
"""Files that others hand out too, word for word, by the package where they are."""


_UNSENT_OF_MODULE: Final = re.compile(rb"^[ \t]*//[^\n]*\n|^[ \t]+|^\n", re.MULTILINE)
"""Comments, indents and empty lines of a module, which are not sent: no text goes over lines."""

_UNSENT_OF_STYLE: Final = re.compile(rb"(?<=[:;{},>]) | (?=[{}>])|;(?= ?})")
"""What is not sent of a style whose blanks are single: none of its texts has such signs."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the dashboard, as it is sent."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files and their common version."""

    version: str
    by_name: dict[str, Asset]


@cache
def load_assets() -> Assets:
    """Read the table of files from the package; nothing outside the table is ever served."""
    static = files(dashboard).joinpath("static")
    by_name = {
        name: Asset(
            files(_OF_THE_KERNEL[name]).joinpath(name).read_bytes()
            if name in _OF_THE_KERNEL
            else strip_unsent(name, static.joinpath(name).read_bytes()),
            media_type,
        )
        for name, media_type in MEDIA_TYPES.items()
    }
    digest = hashlib.sha256(b"\0".join(asset.body for asset in by_name.values()))
    return Assets(digest.hexdigest()[:12], by_name)


def strip_unsent(name: str, source: bytes) -> bytes:
    """Return a file as it is sent."""
    if name.endswith(".js"):
        return _UNSENT_OF_MODULE.sub(b"", source)
    if name.endswith(".css"):
        first, *rest = source.split(b"/*")
        bare = first + b"".join(part.partition(b"*/")[2] for part in rest)
        return _UNSENT_OF_STYLE.sub(b"", b" ".join(bare.split()))
    return source
