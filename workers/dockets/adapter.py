"""A docket as an adapter: to read an entry is the action, its text is the outcome."""

from kernel.belief.adapter import Action, AdapterActionContext, EliminateMessage, Snapshot
from kernel.belief.errors import BeliefInputError
from workers.dockets.plan import Strike, strikes_of
from workers.dockets.postures import UNIVERSE_VERSION, posture_kind, universe
from workers.dockets.reader import Docket


class DocketAdapter:
    """The entries of one docket in order of filing; also what a session over it is declared with.

    Nothing is skipped before it was read: what an entry excludes is known from its text alone.
    """

    def __init__(self, docket: Docket) -> None:
        self._source_id = docket.source_id
        self._kind = posture_kind(docket)
        self._entries = {f"{docket.source_id}#{entry.position}": entry for entry in docket.entries}
        self._remaining = dict.fromkeys(self._entries)

    def id(self) -> str:
        """Return the name of the hypothesis space."""
        return f"case-postures/{self._kind}"

    def version(self) -> str:
        """Return the version of the hypothesis space."""
        return UNIVERSE_VERSION

    def hypothesis_ids(self) -> tuple[str, ...]:
        """Return the postures of the docket's kind of case."""
        return universe(self._kind)

    def list_actions(self, snapshot: Snapshot) -> list[Action]:
        """Return the entries that were not read."""
        del snapshot
        return [
            Action(name, "What does the entry say?", {"date_filed": filed.isoformat()})
            for name, filed in ((name, self._entries[name].date_filed) for name in self._remaining)
        ]

    def apply_action(self, action_id: str, snapshot: Snapshot) -> AdapterActionContext:
        """Take an entry to be read.

        Raises:
            BeliefInputError: `action_unknown` when it was read or the docket has none such.
        """
        if action_id not in self._remaining:
            raise BeliefInputError("action_unknown", f"{action_id!r} is not an entry that is left")
        del self._remaining[action_id]
        return AdapterActionContext(action_id, snapshot)

    def observe(self, context: AdapterActionContext, raw: object) -> list[EliminateMessage]:
        """Return an elimination for each rule that reads the entry, with the words it matched.

        Raises:
            BeliefInputError: `outcome_not_text`; `response_unknown` for a text that is not the
                entry's own.
        """
        if not isinstance(raw, str):
            raise BeliefInputError("outcome_not_text", "an outcome is a text")
        entry = self._entries[context.action_id]
        if raw != entry.description:
            raise BeliefInputError(
                "response_unknown", f"{context.action_id}: not what the entry says"
            )
        return [message_of(strike) for strike in strikes_of(self._source_id, self._kind, entry)]

    def answer(self, action: Action) -> str:
        """Return what an entry says: the docket is its own oracle."""
        return self._entries[action.action_id].description


def message_of(strike: Strike) -> EliminateMessage:
    """Return a strike as the message that a session takes."""
    return EliminateMessage(
        strike.source_id,
        strike.observation_id,
        strike.eliminated,
        strike.justification.document(),
    )
