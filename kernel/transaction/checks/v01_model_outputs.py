"""V1: what models answered is there when the envelope is, and the orchestrator put it (§6.4)."""

from kernel.ledger import schema
from kernel.transaction.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse an answer without a payload, and answers that the orchestrator did not capture."""
    outputs = submission.envelope.recorded_model_outputs
    if outputs and submission.submitter != "orchestrator":
        message = "what a model answered is captured by the orchestrator"
        return Refusal("envelope_actor_unauthorized", "recorded_model_outputs", message)
    for index, output in enumerate(outputs):
        if (
            submission.transaction.tables.get(schema.blobs, output.output_payload_blob_ref)
            is not None
        ):
            continue
        field = f"recorded_model_outputs.{index}.output_payload_blob_ref"
        return Refusal("envelope_schema_invalid", field, "no payload has this commitment")
    return None
