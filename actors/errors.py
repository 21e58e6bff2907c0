"""Defines the errors that an actor answers; `error_codes` says which to ask again."""

from typing import Any


class ActorError(Exception):
    """Base; `code` is stable, and `error_codes` says what it means."""

    code = "internal"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


class CodedError(ActorError):
    """Base of those whose code is that of what went wrong elsewhere."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MailboxFull(ActorError):
    """The session has as much waiting as it may hold; nothing was taken."""

    code = "mailbox_full"


class RuntimeFull(ActorError):
    """This process has as many active sessions as it may; nothing was taken."""

    code = "runtime_full"


class ActorFailed(ActorError):
    """The actor stopped while the message was with it; whether it took effect is on the record."""

    code = "actor_failed"


class CommitFailed(ActorError):
    """The transaction was not committed; nothing happened."""

    code = "commit_failed"


class RecordWentBack(CommitFailed):
    """The ledger is not the one that was answered from; an operator decides how it goes on."""

    code = "ledger_went_back"


class StaleEpoch(ActorError):
    """Another gateway owns the session by now; whether it took effect is on the record."""

    code = "stale_epoch"


class ShardUnowned(ActorError):
    """No gateway owns the session's shard right now; nothing was taken."""

    code = "shard_unowned"


class ReplyLost(ActorError):
    """The gateway that owns the session did not answer; whether it took effect is on the record."""

    code = "reply_lost"


class ClocksDiffer(ActorError):
    """The clocks of two gateways are minutes apart, and one asked the other; nothing was taken."""

    code = "clocks_differ"


class ProtocolDiffers(ActorError):
    """A process of another version was asked; nothing was taken."""

    code = "protocol_differs"


class RequestTooLarge(ActorError):
    """The request does not fit into the mailbox of another gateway; nothing was taken."""

    code = "request_too_large"


class EnvelopeTooLarge(ActorError):
    """An envelope, or a list in it, is larger than it may be; nothing of it was read."""

    code = "envelope_too_large"


class RequestUnprocessable(ActorError):
    """The request fails whatever carries it out; it was refused on the record and had no effect.

    `details` name the receipt and the digest of the request.
    """

    code = "request_unprocessable"


class RefusalsTooMany(ActorError):
    """The request was refused, and counted without a receipt after many others (§17.6)."""

    code = "refusals_too_many"


class RequestSetAside(ActorError):
    """Each process that took the request has ended; nobody takes it until an operator requeues it.

    `details` name the finding on the record and the entry's place.
    """

    code = "request_set_aside"


class SessionCorrupt(ActorError):
    """The session's record does not verify; it is not served until an operator has looked (L3)."""

    code = "session_corrupt"

    table = "belief_events"

    @property
    def key(self) -> str:
        """The session, which is what is damaged."""
        return str(self.details.get("session_id", ""))


class EliminationStoreFailed(ActorError):
    """The store of a session's tombstones did not answer; nothing was recorded."""

    code = "elimination_store_unavailable"


class EliminationStoreConflict(ActorError):
    """The store of a session's tombstones is not as its audit left it; it is not served so."""

    code = "elimination_store_conflict"


class IntentInvalid(ActorError):
    """The intent cannot be resolved into an operation; nothing was written."""

    code = "intent_invalid"

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message, {"field": field})
        self.field = field


class ThoughtNotTaken(CodedError):
    """A step that does not come next for a session of thoughts or a round; nothing was written.

    Codes: those of `kernel.thoughts.sessions.ThoughtRefused`.
    """


class ModelError(CodedError):
    """A model was not asked, did not answer, or answered outside its grammar; nothing was written.

    Codes: `model_unavailable`, `model_timeout`, `model_busy`, `model_refused`,
    `model_answer_too_large`, `model_answer_invalid`, `model_found_nothing`,
    `model_prompt_too_large`, `sealed_outbound_unauthorized`, `sealed_tier_2_cache_violation`.
    """


class PipelineInvalid(ActorError):
    """A pipeline cannot run as it is declared; nothing was recorded."""

    code = "pipeline_invalid"


class PipelineStopped(ActorError):
    """A source or a sink raised, so the run ended as failed; it may go on where it is."""

    code = "pipeline_stopped"


class PipelineSourceDiffers(ActorError):
    """The source gives other rows than those that the run has recorded; nothing was added."""

    code = "pipeline_source_differs"


class DecisionRefused(CodedError):
    """The kernel refused the operation of an operator's decision; nothing of it was written."""
