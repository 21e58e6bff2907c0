"""What an undisturbed run gave."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.dockets.reader import sample_path


def two_dockets() -> bytes:
    """Return the last two dockets of the sample: what a tree does with more of them is the same."""
    return b"".join(sample_path().read_bytes().splitlines(keepends=True)[2:])


@dataclass(frozen=True)
class Reference:
    """The file that every run of the session takes, and what came of it when nobody disturbed."""

    file: Path
    data_dir: Path
    report: dict[str, Any]
    stderr: str
    rows: int
    essence: dict[str, Any]
