"""The files of the page: a fixed table, read once, under one version in their URL.

The version is a digest of all files and stands in the path before the name, so that a module's
own `import "./stream.js"` carries it too, and a browser may keep every file for ever.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

MEDIA_TYPES = {
    "app.js": "text/javascript; charset=utf-8",
    "hub.js": "text/javascript; charset=utf-8",
    "stream.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


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


def load_assets() -> Assets:
    """Read the table of files from the package; nothing outside the table is ever served."""
    folder = files("workers.dashboard").joinpath("static")
    by_name = {
        name: Asset(folder.joinpath(name).read_bytes(), media_type)
        for name, media_type in MEDIA_TYPES.items()
    }
    digest = hashlib.sha256(b"\0".join(asset.body for asset in by_name.values()))
    return Assets(digest.hexdigest()[:12], by_name)
