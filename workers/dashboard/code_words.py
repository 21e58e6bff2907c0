"""Says in words what kept a part of a page from being read; its code stands behind."""

from collections.abc import Mapping
from typing import Final

WORDS_OF_CODES: Final[Mapping[str, str]] = {
    "queue_unavailable": "Redis does not answer",
    "queue_refused": "Redis refuses what the gateway needs",
    "redis_of_another_ledger": "The keys in this Redis are another ledger's",
    "ledger_unavailable": "The database does not answer",
    "ledger_went_back": "The ledger lost rows that it had before",
    "ConnectionError": "Nothing answers at its address",
    "TimeoutError": "No answer came in time",
}


def in_words(code: str) -> str:
    """Return what a code means, with the code; what is no known code stays as it is."""
    words = WORDS_OF_CODES.get(code)
    return code if words is None else f"{words} ({code})."
