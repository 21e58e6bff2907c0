"""Names the faults of the store that holds the rows as findings, beside those of its rows."""

from collections.abc import Iterable

from kernel.ledger.store.catalog import StorageFault
from kernel.verify.reading import Findings


def add_faults(findings: Findings, faults: Iterable[StorageFault]) -> None:
    """Note faults of the storage, each under the object that it concerns."""
    for fault in faults:
        findings.add(fault.table, fault.name, fault.rule, fault.message)
