"""Defines the errors of recording and reading runs: who asked is wrong, or the record is."""

from kernel.values.errors import FieldRefused, KernelError, RowDamaged


class RecordRefused(FieldRefused):
    """A record is not what its table admits; nothing of it was written. `field` is its column."""


class LandscapeRefused(KernelError):
    """What is asked does not fit what the run's records say; nothing was written.

    `code` is `landscape_conflict` where a record of the same key, or another terminal outcome of a
    token, is there already; `landscape_run_over` where the run has ended; `landscape_unknown`
    where nothing has the id; `landscape_incomplete` where something has to come first.
    """

    code = "landscape_conflict"


class RecordDamaged(RowDamaged):
    """A stored record breaks a rule of its own table: whoever read it stops (Tier 1, ruling L3)."""

    code = "landscape_record_damaged"
