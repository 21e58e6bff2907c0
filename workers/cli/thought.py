"""Runs `rotulus thought`: a session of thoughts on a running gateway, step by step (seed 002)."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import click

from kernel.model.thought_receipts import THOUGHTS_MAX
from kernel.proof.signing_keys import KeyKind
from kernel.proof.thought_chain import ThoughtType
from kernel.proof.verification import ProofInvalid
from workers.cli.common import (
    as_json,
    clean_errors,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.question_commands import as_document, of_gateway, question_command
from workers.client.typed.thoughts import ThoughtClient, merkle_verify
from workers.environment.key_file import new_keys, write_keys
from workers.questions.thoughts import ListThoughts, MerkleRoot

_SESSION = click.argument("session_id", type=click.UUID)
Ask = Callable[[ThoughtClient], Coroutine[Any, Any, Any]]


@click.group()
def thought() -> None:
    """Record what was thought, close it into a root, and prove a thought."""


def _ask(session_id: UUID, ask: Ask) -> Any:
    address = gateway_url(read_settings())

    async def ask_session() -> Any:
        async with patient_client(address) as client:
            return await ask(ThoughtClient(client, session_id))

    return run(ask_session)


@thought.command()
@_SESSION
@click.argument("task_id")
@as_json
def start(session_id: UUID, task_id: str, *, as_json: bool) -> None:
    """Begin the session SESSION_ID, a UUID, for TASK_ID."""
    answer = _ask(session_id, lambda client: client.audit_session_start(task_id))
    print_document(answer, as_json=as_json)


@thought.command()
@_SESSION
@click.argument("thought_id")
@click.argument("thought_type", type=click.Choice(get_args(ThoughtType)))
@click.argument("content")
@as_json
def record(
    session_id: UUID,
    thought_id: str,
    thought_type: ThoughtType,
    content: str,
    *,
    as_json: bool,
) -> None:
    """Record a thought under THOUGHT_ID; the same again is the same thought."""
    answer = _ask(
        session_id,
        lambda client: client.thought_record(thought_id, thought_type, content),
    )
    print_document(answer, as_json=as_json)


@thought.command()
@_SESSION
@as_json
def verify(session_id: UUID, *, as_json: bool) -> None:
    """Have the chain read again from its first thought."""
    answer = _ask(session_id, ThoughtClient.audit_verify_chain)
    print_document(answer, as_json=as_json)


@thought.command()
@_SESSION
@as_json
def finalize(session_id: UUID, *, as_json: bool) -> None:
    """Seal the session behind its closing reflection, and print its root."""
    answer = _ask(session_id, ThoughtClient.merkle_finalize)
    print_document(answer, as_json=as_json)


@thought.command()
@_SESSION
@as_json
def end(session_id: UUID, *, as_json: bool) -> None:
    """End the session."""
    print_document(_ask(session_id, ThoughtClient.audit_session_end), as_json=as_json)


thought.add_command(question_command(ListThoughts, "show", as_document, of_gateway))
thought.add_command(question_command(MerkleRoot, "root", as_document, of_gateway))


@thought.command()
@_SESSION
@click.argument("sequence", type=click.IntRange(1, THOUGHTS_MAX))
@as_json
def prove(session_id: UUID, sequence: int, *, as_json: bool) -> None:
    """Fetch the proof of thought SEQUENCE, verify it here, and print it."""
    proof = _ask(session_id, lambda client: client.proof(sequence))
    try:
        merkle_verify(proof)
    except ProofInvalid as error:
        raise click.ClickException(f"{error.code}: {error}") from None
    print_document(proof, as_json=as_json)


@thought.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", required=True, help="Name of the signer, such as example.com/agent.")
@as_json
def key(file: Path, name: str, *, as_json: bool) -> None:
    """Make a key that signs seals in FILE, for ROTULUS_SEAL_KEY, and print its public half."""
    with clean_errors():
        keys = new_keys(name, (KeyKind.ED25519,))
        write_keys(file, keys)
    print_document({"name": name, "vkey": keys[0].verifier.vkey}, as_json=as_json)
