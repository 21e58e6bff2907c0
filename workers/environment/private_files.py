"""Refuses folders and files of ours that somebody else could read or plant.

1. A folder belongs to who runs this and lets nobody else in. One that does is refused: whoever was
   let in may have put something there, and somebody may have meant it.
2. A file belongs to who runs this too, is a plain file and has one name. A link would lead what is
   written elsewhere, and a second name would let it be changed from there.
3. A file that others may read is made private, because the folder kept them out.
4. A file that takes its name when it is whole is written under a name that no other writer has, be
   it of this process or another.

See decision workers/0078.
"""

import os
import stat
import threading
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_OTHERS = 0o077


class UnsafePathError(Exception):
    """Says what is wrong with a path, and what to do about it."""


def check_folder(path: Path) -> None:
    """Refuse a folder that is not ours alone.

    Raises:
        UnsafePathError: it, or a link that leads to it, belongs to somebody else, or others may
            open it.
        OSError: it cannot be looked at.
    """
    link, folder = path.lstat(), path.stat()
    if not stat.S_ISDIR(folder.st_mode):
        raise UnsafePathError(f"{path} is no folder")
    # An administrator may lead a service's folder to another disk.
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), 0):
        raise UnsafePathError(f"{path} is a link that another user made")
    _check_owner(path, folder)
    if folder.st_mode & _OTHERS:
        mode = stat.S_IMODE(folder.st_mode)
        raise UnsafePathError(f"other users may open {path} (mode {mode:04o}): chmod 700 {path}")


def check_file(path: Path) -> None:
    """Make a file private, if there is one, and refuse one that is not ours alone.

    Raises:
        UnsafePathError: it belongs to somebody else, is no plain file or has a second name.
        OSError: it cannot be looked at.
    """
    try:
        file = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(file.st_mode):
        raise UnsafePathError(f"{path} is no plain file: move it away")
    _check_owner(path, file)
    if file.st_nlink > 1:
        raise UnsafePathError(f"{path} has a second name (a hard link): copy it, and remove that")
    if file.st_mode & _OTHERS:
        path.chmod(FILE_MODE)


def draft_of(path: Path) -> Path:
    """Return the name under which this thread of this process writes what is to have a path."""
    return path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.draft")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafePathError(f"{path} belongs to another user (uid {status.st_uid})")
