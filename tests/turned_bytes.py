"""What came of flipping the bytes of a file, as the last run left it, and the sentence about it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "kernel" / "turned_bytes.json"


def keep(
    part: str,
    page_bytes: int,
    pages: Mapping[str, int],
    flipped: Mapping[str, int],
    outcomes: Mapping[str, int],
) -> None:
    """Write down a part such as 2/6, beside the other parts of the same file.

    Args:
        part: which one of how many.
        page_bytes: size of a page.
        pages: how many pages of each kind the file has.
        flipped: how many pages of each kind were flipped, each byte of them.
        outcomes: how many bytes came to what.
    """
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    parts = {part: {"pages": dict(flipped), "bytes": dict(sorted(outcomes.items()))}}
    if (kept.get("page_bytes"), kept.get("pages")) == (page_bytes, pages):
        of = part.rpartition("/")[2]
        kept_parts = kept["parts"].items()
        parts |= {
            name: part_pages
            for name, part_pages in kept_parts
            if name != part and name.endswith(f"/{of}")
        }
    document = {
        "page_bytes": page_bytes,
        "pages": dict(pages),
        "parts": dict(sorted(parts.items())),
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")


def flipped_pages(kept: Mapping[str, Any]) -> Counter[str]:
    """Return how many pages of each kind were flipped."""
    return _summed(part["pages"] for part in kept["parts"].values())


def outcomes(kept: Mapping[str, Any]) -> Counter[str]:
    """Return how many bytes came to what."""
    return _summed(part["bytes"] for part in kept["parts"].values())


def _summed(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def sentence() -> str:
    """Say which bytes were flipped and what came of it."""
    if not RESULT.exists():
        return "None were flipped yet."
    kept = json.loads(RESULT.read_text())
    counts, flipped = outcomes(kept), flipped_pages(kept)
    shares = ", ".join(f"{kind} {flipped[kind]} of {n}" for kind, n in kept["pages"].items())
    return (
        "Of a ledger of two operations, a refusal and a belief session, in pages of"
        f" {kept['page_bytes']} bytes, every byte of {flipped.total()} pages had one bit flipped,"
        f" one byte at a time ({shares}): of {counts.total():,} bytes {counts['found']:,} gave a"
        f" finding, {counts['nothing changed']:,} changed nothing that is read and"
        f" {counts['missed']:,} were missed."
    )
