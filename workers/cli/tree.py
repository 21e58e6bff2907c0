"""Runs `rotulus tree`: the Merkle tree over the log, its head, its proofs, its rebuilding."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import click

from kernel.verify.since import KeptTree
from workers.cli.common import (
    ROW,
    SEQUENCE,
    as_json,
    clean_errors,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.tree_head_argument import TreeHeadArgument
from workers.client.log_proofs import InclusionProof, LogProofs, TreeHead
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import file_of, ledger_place, rebuild_tree

T = TypeVar("T")


@click.group()
def tree() -> None:
    """Prove that a row is in the log, and that the log only grew; every proof is verified here."""


@tree.command()
@as_json
def head(*, as_json: bool) -> None:
    """Print the head of the tree, in the form in which `consistency` takes it again."""
    print_document(_head(_ask(LogProofs.head)), as_json=as_json)


@tree.command()
@click.argument("sequence", type=ROW)
@click.option("--size", type=SEQUENCE, help="The tree of the first so many rows.  [all]")
@as_json
def inclusion(sequence: int, size: int | None, *, as_json: bool) -> None:
    """Prove that the row SEQUENCE is in the log."""
    proof = _ask(lambda proofs: proofs.inclusion(sequence, size))
    print_document(proof_document(proof), as_json=as_json)


@tree.command()
@click.argument("old", metavar="SIZE:ROOT", type=TreeHeadArgument())
@click.option("--size", type=SEQUENCE, help="The tree of the first so many rows.  [all]")
@as_json
def consistency(old: KeptTree, size: int | None, *, as_json: bool) -> None:
    """Prove that the log only grew since a head SIZE:ROOT that was kept."""
    kept = TreeHead(old.size, old.root)
    new = _ask(lambda proofs: proofs.grown_from(kept, size))
    stated = _head(kept)["tree_head"]
    print_document({"consistent_with": stated, **_head(new)}, as_json=as_json)


@tree.command()
@as_json
def rebuild(*, as_json: bool) -> None:
    """Build the frontier and the tiles anew from the rows of the log; nothing else is changed."""
    settings = read_settings()
    place = ledger_place(settings)
    with clean_errors(), ExitStack() as stack:
        file = file_of(place)
        if file is not None and file.exists():
            stack.enter_context(DataFolder(settings.data_dir).lock())
        built = rebuild_tree(place)
    print_document(_head(TreeHead(built.size, built.root())), as_json=as_json)


def proof_document(proof: InclusionProof) -> dict[str, Any]:
    """Return a verified proof as it is printed."""
    return {
        "included": True,
        "ec_sequence_number": str(proof.sequence),
        "row": proof.row.decode(),
        "path": [node.hex() for node in proof.path],
        **_head(proof.head),
    }


def _head(stated: TreeHead) -> dict[str, str]:
    root = stated.root.hex()
    return {
        "tree_head": f"{stated.size}:{root}",
        "tree_size": str(stated.size),
        "root_hash": root,
    }


def _ask(question: Callable[[LogProofs], Awaitable[T]]) -> T:
    url = gateway_url(read_settings())

    async def ask() -> T:
        async with patient_client(url) as gateway:
            return await question(LogProofs(gateway))

    answer: T = run(ask)
    return answer
