"""Checks the size of an envelope at the door, before it is read into a model.

Each list has its limit, which a mailbox and V1 check as well. Eight MiB of empty effects took 51
s and 5.7 GB in the write transaction before; counting them takes 10 ms. A refusal at the door has
no receipt, because nothing was submitted yet.
"""

from typing import Any

import anyio.to_thread

from actors.errors import EnvelopeTooLarge
from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.transaction.checks.schema import Oversize, too_many_bytes, too_many_entries
from kernel.values.canonical import CanonicalizationError, canonicalize_readable

CANONICAL_BYTES_OF_BYTE = 6
"""Bytes that one byte of JSON may become in canonical form: 1e20 has 21 digits there."""


async def check_envelope_size(document: dict[str, Any], body_bytes: int) -> None:
    """Return if an envelope is within its limits; V1 finds whatever else is wrong with it.

    `body_bytes` is the size of the body that it came in.

    Raises:
        EnvelopeTooLarge: naming the field, its limit and what it has.
    """
    oversize = too_many_entries(document)
    if oversize is None and body_bytes * CANONICAL_BYTES_OF_BYTE > MAX_ENVELOPE_BYTES:
        oversize = await anyio.to_thread.run_sync(_bytes, document)
    if oversize is not None:
        details = {"field": oversize.field, **oversize.details}
        raise EnvelopeTooLarge(oversize.message, details)


def _bytes(document: dict[str, Any]) -> Oversize | None:
    try:
        return too_many_bytes(canonicalize_readable(document))
    except CanonicalizationError:
        return None
