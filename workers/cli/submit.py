"""Runs `rotulus submit`: an envelope, put through the kernel by a running gateway."""

from typing import IO, Any, BinaryIO
from uuid import UUID

import click

from kernel.proof.checkpoint_verdict import CheckpointVerdict, judge_checkpoint
from kernel.proof.witness_policy import WitnessPolicy
from workers.cli.checkpoint_verify import policy_of
from workers.cli.common import (
    as_json,
    clean_errors,
    command_error,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import ask_gateway, patient_client
from workers.cli.input_file import InputFile, read_object
from workers.cli.tree import proof_document
from workers.client.log_proofs import WITNESSED_WITHIN_S, LogProofs, NotWitnessed, WitnessedRow
from workers.publication.witnessed_waits import WAIT_S_MAX


@click.command()
@click.argument("session", type=click.UUID)
@click.argument("file", type=InputFile())
@click.option(
    "--proof",
    is_flag=True,
    help="Have the answer prove that the row is in the log, and verify that.",
)
@click.option(
    "--durability",
    type=click.Choice(["committed", "witnessed"]),
    default="committed",
    show_default=True,
    help="What to wait for: that the row is on the record, or that witnesses have cosigned it too.",
)
@click.option(
    "--within",
    type=click.IntRange(0, WAIT_S_MAX),
    default=WITNESSED_WITHIN_S,
    show_default=True,
    help="With --durability witnessed: seconds to wait for witnesses.",
)
@click.option(
    "--policy",
    "policy_file",
    type=InputFile(),
    help="With --durability witnessed: a file of tlog-policy, by which the cosignatures are"
    " verified and counted here; without it the gateway's word is taken.",
)
@as_json
def submit(
    session: UUID,
    file: BinaryIO,
    durability: str,
    within: int,
    policy_file: IO[bytes] | None,
    *,
    proof: bool,
    as_json: bool,
) -> None:
    """Submit the envelope in FILE (JSON, - for standard input) in SESSION.

    It may be submitted again after any failure: its idempotency key makes it take effect once. Ends
    with 1 where witnesses were waited for and have not cosigned the row in time; the row stands.
    """
    is_witnessed = durability == "witnessed"
    if policy_file is not None and not is_witnessed:
        raise click.UsageError("--policy is of use with --durability witnessed")
    url = gateway_url(read_settings())
    envelope = read_object(file)
    if is_witnessed:
        with clean_errors():
            policy = None if policy_file is None else policy_of(policy_file)
        _submit_witnessed(str(url), str(session), envelope, within, policy, as_json=as_json)
        return
    if not proof:
        result = ask_gateway(url, f"/v1/sessions/{session}/envelopes", envelope)
        print_document(result, as_json=as_json)
        return

    async def ask() -> dict[str, Any]:
        async with patient_client(url) as gateway:
            result, inclusion = await LogProofs(gateway).submit(str(session), envelope)
        return result | {"inclusion_proof": proof_document(inclusion)}

    print_document(run(ask), as_json=as_json)


def _submit_witnessed(
    url: str,
    session: str,
    envelope: dict[str, Any],
    within_s: int,
    policy: WitnessPolicy | None,
    *,
    as_json: bool,
) -> None:
    """Submit, print the row under its witnessed checkpoint, and end with 1 where it has none."""

    async def ask() -> tuple[dict[str, Any], WitnessedRow | NotWitnessed]:
        async with patient_client(url) as gateway:
            try:
                return await LogProofs(gateway).submit_witnessed(session, envelope, within_s)
            except NotWitnessed as error:
                return error.result, error

    result, row = run(ask)
    document = result | {"inclusion_proof": proof_document(row.proof)}
    judgement = None
    if policy is not None and isinstance(row, WitnessedRow):
        judgement = judge_checkpoint(row.checkpoint, policy)
        document["verified_here"] = judgement.message
    print_document(document, as_json=as_json)
    if isinstance(row, NotWitnessed):
        raise command_error(row.code, str(row))
    if judgement is not None and judgement.verdict is not CheckpointVerdict.WITNESSED:
        raise command_error(
            "proof_invalid", f"by this policy the checkpoint is {judgement.message}"
        )
