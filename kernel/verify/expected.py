"""Holds the log against a head that was kept elsewhere: the log must still hold its row.

A record that was cut at its end, or computed anew from some row on, is sound by itself. A sequence
and a hash that an operator kept say which record it was.
"""

import re
from typing import NamedTuple

from kernel.ledger import schema
from kernel.values.canonical import GENESIS_HASH
from kernel.verify.hash_chains import sha256_hex
from kernel.verify.reading import Reader, Rule

_FORM = re.compile(r"(0|[1-9][0-9]{0,15}):([0-9a-f]{64})")


class ExpectedHead(NamedTuple):
    """The newest row at the time at which an operator kept it."""

    ec_sequence_number: int
    row_hash: str

    @classmethod
    def parse(cls, text: str) -> "ExpectedHead":
        """Read `SEQUENCE:HASH` as a verification prints it.

        Raises:
            ValueError: when it has another form.
        """
        matched = _FORM.fullmatch(text)
        if matched is None:
            raise ValueError("a head is SEQUENCE:HASH, such as 17:9f... with 64 hex digits")
        return cls(int(matched[1]), matched[2])


def mismatch(expected: ExpectedHead, row_hash: str | None) -> tuple[Rule, str] | None:
    """Return what is wrong where the log has a row of this hash, or none, at that sequence."""
    if row_hash == expected.row_hash:
        return None
    sequence = expected.ec_sequence_number
    if row_hash is None:
        return "head_not_found", f"the log ends before row {sequence}, which was kept as its head"
    return "head_not_found", f"row {sequence} has the hash {row_hash}, another was kept"


def check_expected(reader: Reader, expected: ExpectedHead) -> None:
    """Compare a row of the log with the kept one."""
    sequence = expected.ec_sequence_number
    row_hash: str | None = GENESIS_HASH
    if sequence:
        row = reader.get(schema.kernel_event_log, sequence)
        content = None if row is None else row["row_bytes"]
        row_hash = sha256_hex(content) if isinstance(content, bytes) else None
    wrong = mismatch(expected, row_hash)
    if wrong is not None:
        reader.findings.add(schema.kernel_event_log, sequence, *wrong)
