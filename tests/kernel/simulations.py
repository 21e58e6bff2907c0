"""Simulations for tests: asked for as the orchestrator, allowed everything unless a test says."""

from kernel.algebra.simulation_support import NOT_SIMULATABLE
from kernel.algebra.verbs import OPERATION_KINDS
from kernel.model.simulation import SimulationExternalEffectPolicy
from kernel.simulate.operation import Simulation, simulate_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.every import every_kind

PROFILE = "ab" * 32

NOTHING_FORBIDDEN = SimulationExternalEffectPolicy(
    policy_id="nothing-forbidden",
    forbidden_external_effects=(),
    allowed_external_effects=("ephemeral_local_llm_call",),
    on_violation="block_with_receipt",
)


def policy(**changes):
    return NOTHING_FORBIDDEN.model_copy(update=changes)


def simulate(
    ledger, document, policy=NOTHING_FORBIDDEN, *, kernel=None, prediction=None, **options
):
    """Simulate in a transaction of its own and return the result."""
    options.setdefault("submitter", "orchestrator")
    with ledger.transaction() as transaction:
        if prediction is not None:
            # What a model said is on the ledger before anybody refers to it.
            outputs = tuple(
                output.model_copy(update={"output_payload_blob_ref": transaction.put_blob(b"said")})
                for output in prediction.recorded_model_outputs
            )
            prediction = prediction.model_copy(update={"recorded_model_outputs": outputs})
        return simulate_operation(
            kernel or Kernel(),
            transaction,
            document,
            policy,
            PROFILE,
            prediction=prediction,
            simulation=Simulation(**options),
        )


def shown(result):
    """The state of a preview that must be there."""
    assert result.outcome == "previewed", result
    return result.preview.preview_state


def simulatable_course():
    """The course that names every kind, without the operations that cannot be simulated."""
    return [
        document
        for document in every_kind()
        if OPERATION_KINDS[document["operation_kind"]].simulation_support_level != NOT_SIMULATABLE
        and not {"epoch_id", "compensates_operation_id"} & document.keys()
    ]
