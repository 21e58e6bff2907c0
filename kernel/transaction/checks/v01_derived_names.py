"""V1: what has a name that the runtime derives is first written by the runtime (§16.4).

A claim that an extraction will write, and the run that it will be, can be named beforehand by
anybody who knows the text. Once it is there, others go on with it as with anything else.
"""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.node_kinds import derived_name_in
from kernel.transaction.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse from outside an effect on what has such a name and is not there."""
    envelope = submission.envelope
    if submission.submitter == "orchestrator" and envelope.supersedes is None:
        return None
    for index, effect in enumerate(envelope.primitive_effects):
        name = derived_name_in(effect.target_ref or "")
        if name is not None and not _is_there(submission.transaction, name):
            field = f"primitive_effects.{index}.target_ref"
            message = f"{name} is not there, and the runtime alone gives such a name"
            return Refusal("envelope_actor_unauthorized", field, message)
    return None


def _is_there(view: LedgerView, name: str) -> bool:
    steps = {"extraction_run_id": name}
    return view.node(name) is not None or bool(
        view.tables.select(schema.extraction_attempts, steps, limit=1)
    )
