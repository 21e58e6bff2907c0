"""Finds the gateway that a program means: one that is named, that of a data folder, or the default.

A process tree writes its address into its data folder and holds a lock there while it runs
(`workers/environment/data_folder.py`), so that what a killed tree left is not taken for one that
runs. A folder that others can change could lead anywhere, and is refused.
"""

import json
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from .errors import GatewayError

if sys.platform != "win32":
    import fcntl

    _OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

DEFAULT_URL: Final = "http://127.0.0.1:8440"
DEFAULT_FOLDER: Final = "rotulus-data"
REMEDY: Final = (
    "`rotulus dev FILE` or `rotulus up` starts one here, ROTULUS_GATEWAY_URL names another"
)
_FACTS_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The gateways that a program asks."""

    urls: tuple[str, ...]
    remedy: str = ""
    """How one is started where none answers; empty where somebody named it."""


def gateway_address(
    urls: tuple[str, ...], data_dir: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> GatewayAddress:
    """Return the named gateways, else that of the named folder, of the environment, the default.

    The environment names gateways by ROTULUS_GATEWAY_URL and ROTULUS_OTHER_GATEWAY_URLS, or a
    folder by ROTULUS_DATA_DIR, by default `rotulus-data` in the current one.

    Raises:
        GatewayError: `gateway_unreachable` where no tree runs on the folder of `data_dir`,
            `data_folder_unsafe` where others can change what it says.
    """
    if urls:
        return GatewayAddress(urls)
    if data_dir is not None:
        url = tree_url(Path(data_dir))
        if url is None:
            raise GatewayError(
                "gateway_unreachable",
                f"no tree runs on {data_dir};"
                f" `rotulus up --data-dir {quote(str(data_dir))}` starts one",
            )
        return GatewayAddress((url,))
    others = environment.get("ROTULUS_OTHER_GATEWAY_URLS", "").split(",")
    further = tuple(filter(None, (url.strip() for url in others)))
    first = environment.get("ROTULUS_GATEWAY_URL")
    if first:
        return GatewayAddress((first, *further))
    url = tree_url(Path(environment.get("ROTULUS_DATA_DIR") or DEFAULT_FOLDER)) or DEFAULT_URL
    return GatewayAddress((url, *further), REMEDY)


def tree_url(folder: Path) -> str | None:
    """Return the gateway of the process tree that runs on a data folder; None where none does.

    Raises:
        GatewayError: `data_folder_unsafe`, see `gateway_address`.
    """
    folder = folder.expanduser()
    if sys.platform == "win32":
        return None  # there are no trees
    try:
        if not _is_held(folder / "lock"):
            return None
        text = _private_text(folder / "runtime.json")
        url = json.loads(text)["gateway_url"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return url if isinstance(url, str) and url.startswith(("http://", "https://")) else None


def _is_held(path: Path) -> bool:
    """Tell whether a living process holds the lock of a file."""
    fd = os.open(path, _OPEN_FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _private_text(path: Path) -> bytes:
    """Read a file of ours, or as an administrator anybody's, that nobody else can write."""
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
        for each in (os.fstat(file.fileno()), path.parent.stat()):
            is_ours = each.st_uid == os.geteuid() or not os.geteuid()
            if not is_ours or each.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                message = f"{path.parent} is not its user's alone, and could lead anywhere"
                raise GatewayError("data_folder_unsafe", message)
        return file.read(_FACTS_BYTES_MAX)
