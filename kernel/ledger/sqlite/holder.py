"""Names the process that holds the writer's lock of a SQLite file, as Linux tells.

In WAL mode the lock is byte 120 of the file beside it, ``-shm``. It is looked up in the system's
table of locks: opening and closing that file here would drop the locks that this process has on it.
"""

from contextlib import suppress
from pathlib import Path

_LOCKS = Path("/proc/locks")
_WRITE_LOCK_BYTE = "120"
_STATES = {"T": "stopped", "t": "stopped", "D": "waits for its disk", "Z": "dead"}


LOOKS_MAX = 5
"""The table is read in pages, and an entry can slip from one to the other meanwhile."""


def holder_of(path: Path) -> str:
    """Say which process holds the lock to write a file; never fails."""
    with suppress(OSError, ValueError):
        inode = str(Path(f"{path}-shm").stat().st_ino)
        for _ in range(LOOKS_MAX):
            for line in _LOCKS.read_text().splitlines():
                # "1: POSIX ADVISORY WRITE 4242 fd:00:1234 120 120"; one that waits has "->".
                _, kind, _, access, pid, file, first, *_ = line.split()
                is_write_lock = (kind, access, first) == ("POSIX", "WRITE", _WRITE_LOCK_BYTE)
                if is_write_lock and file.rpartition(":")[2] == inode:
                    return f"process {pid} ({_state_of(pid)})"
    return "another process"


def _state_of(pid: str) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "not seen from here"
    return _STATES.get(state, "running")
