"""Defines the kernel's errors: few, and named for what the caller does next."""


class KernelError(Exception):
    """Base of the kernel's errors; `code` is stable and machine readable."""

    code = "kernel_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class FieldRefused(KernelError):
    """A document is refused for one of its fields; nothing was written."""

    def __init__(self, code: str, field: str, message: str) -> None:
        super().__init__(message, code=code)
        self.field = field
        """The place in the document, its parts joined by dots; empty where it is no field's."""


class LedgerCorrupt(KernelError):
    """A stored row fails its own rules; whoever read it stops serving (ruling L3)."""

    code = "ledger_corrupt"

    table: str = ""
    key: str = ""
    """The row by its table and its primary key, where whoever raised it knows them."""


class RowDamaged(LedgerCorrupt):
    """A stored row breaks a rule of its own table, or is not what its own hash says."""

    code = "record_damaged"

    def __init__(self, table: str, key: str, rule: str) -> None:
        super().__init__(f"{table} {key}: {rule}")
        self.table = table
        self.key = key
        self.rule = rule


class LedgerUnavailable(KernelError):
    """The store did not answer; nothing was written and the caller may try again."""

    code = "ledger_unavailable"


class LedgerHeld(LedgerUnavailable):
    """Another writer did not give the head up in time; nothing was written."""


class LedgerFailed(KernelError):
    """The store failed in use (a disk, a file): who writes to it ends, and recovers from it."""

    code = "ledger_failed"


class LedgerSchemaDiffers(KernelError):
    """The tables have another version than this program; trying again does not help.

    `code` is `ledger_schema_older` where `rotulus migrate` brings the tables forward, and
    `ledger_schema_newer` or `ledger_schema_unknown` where only another program can read them;
    `ledger_schema_altered` where they are of this version and not as this program makes them.
    """

    code = "ledger_schema_unknown"


class RulesVersionUnknown(KernelError):
    """A row was recorded under rules that this program does not have: a newer one reads it."""

    code = "rules_version_unknown"


class VerificationProcessDied(KernelError):
    """A process that verified a part of the log ended without a word; nothing was changed."""

    code = "verification_process_died"


class CommitOutcomeUnknown(KernelError):
    """COMMIT failed: look the idempotency keys up before answering anybody (ruling K25)."""

    code = "commit_outcome_unknown"


class EffectInapplicable(KernelError):
    """An effect does not fit the state it meets; the operation is rejected and undone."""

    code = "effect_inapplicable"

    def __init__(self, message: str, *, code: str, field: str) -> None:
        super().__init__(message, code=code)
        self.field = field


class AuthorityInvalid(KernelError):
    """An input, or what a strategy makes of the inputs, is not an authority."""

    code = "authority_out_of_range"


class SnapshotTooOld(KernelError):
    """More was recorded since a moment than is looked back over."""

    code = "recompute_as_of_too_old"


class TextNotStorable(KernelError):
    """A value that the store cannot hold; nothing of it was written.

    No text, U+0000, an integer beyond 64 bits, more than an index or a statement takes. Here the
    value is to blame; in `LedgerUnavailable` and `LedgerFailed` it is the store. Whoever commits
    for many tells by this whether one of them is at fault.
    """

    code = "text_not_storable"


OF_THE_LEDGER = (LedgerUnavailable, CommitOutcomeUnknown, LedgerCorrupt, LedgerFailed, OSError)
"""Errors of a ledger that cannot be reached or trusted; no operation is to blame for them."""
