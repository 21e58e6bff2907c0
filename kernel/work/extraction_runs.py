"""Names the run of an extraction by its text, whoever asks for it (§16.4).

A run's name follows from the source, its text, the extractor and the corpus. So the same asking is
the same run, and a changed text is another.
"""

from collections.abc import Sequence

from kernel.ledger.ledger import Document, LedgerView
from kernel.records.extraction import SOURCE_CHANGED, last_attempt
from kernel.values.canonical import digest
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.extraction_sources import read_source
from kernel.work.requests import request_id_of, status_of

RUN_PREFIX = "extraction:"
DIGEST_CHARS = 32
CHANGES_MAX = 1000
"""Runs over one text of a source that changed under each of them; no further one begins."""


def run_of(
    view: LedgerView,
    artifact_ref: str,
    extractor: str | None = None,
    *,
    corpus_id: str,
    fields: Sequence[str] = (),
) -> tuple[str, str | None]:
    """Return the name of an artifact's run as it is now, and the run's state.

    Pending where it was asked for and has no step; None where nobody has asked for it.

    Raises:
        ExtractionRefused: there is no such text.
    """
    text = read_source(view, artifact_ref)
    named = [artifact_ref, text.sha256, extractor or "", corpus_id, sorted(fields)]
    run_id, last = _newest_run(view, named)
    if last is not None:
        return run_id, str(last["current_state"])
    is_requested = status_of(view, request_id_of(EXTRACTION_QUEUE, run_id)) is not None
    return run_id, "pending" if is_requested else None


def _newest_run(view: LedgerView, named: Sequence[object]) -> tuple[str, Document | None]:
    """Return the run of a text and its last step; a text that came back has a further run."""
    times = 0
    while True:
        run_id = f"{RUN_PREFIX}{digest([*named, times])[:DIGEST_CHARS]}"
        last = last_attempt(view, run_id)
        changed = last is not None and last.get("cancellation_reason") == SOURCE_CHANGED
        times += 1
        if not changed or times == CHANGES_MAX:
            return run_id, last


def replacement_of(run_id: str) -> str:
    """Return the name of the run that takes another's place."""
    return f"{RUN_PREFIX}{digest(['replaces', run_id])[:DIGEST_CHARS]}"
