"""Models what operations state of runs (seed 003)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from kernel.model.numbers import Count
from kernel.model.receipt_bodies import ReceiptBody, Sequence, Sha256

RunName = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]+$")
]
_TableName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class TableDigest(ReceiptBody):
    """A run's records of one table."""

    records: Count
    digest: Sha256


class RunSealed(ReceiptBody):
    """A run has ended, and these were its records."""

    run_id: RunName
    record_count: Count
    run_digest: Sha256
    table_digests: Annotated[dict[_TableName, TableDigest], Field(max_length=64)]


class RunRecordsAnchored(ReceiptBody):
    """The newest group of what was recorded of runs, which names the one before."""

    group_sequence: Sequence
    group_hash: Sha256
