"""What an undisturbed run gave."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Reference:
    """The file that every run of the session takes, and what came of it when nobody disturbed."""

    file: Path
    data_dir: Path
    report: dict[str, Any]
    stderr: str
    rows: int
    essence: dict[str, Any]
    seconds: float
