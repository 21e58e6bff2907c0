"""V1: `recorded_at` is a time in UTC (§2.1)."""

from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.values.host import parse_time_us

_CHARS_MAX = 32


def check(submission: Submission) -> Verdict:
    """Refuse what is not ISO 8601 in UTC; what takes a lite envelope's place repeats its time."""
    envelope = submission.envelope
    if envelope.supersedes is not None or is_utc(envelope.recorded_at):
        return None
    return Refusal("envelope_schema_invalid", "recorded_at", "recorded_at is ISO 8601 in UTC")


def is_utc(text: str) -> bool:
    """Tell whether a text is an ISO 8601 time in UTC, from 1970 on."""
    if len(text) > _CHARS_MAX or not text.endswith(("Z", "+00:00")) or "T" not in text:
        return False
    try:
        return parse_time_us(text) >= 0
    except ValueError:
        return False
