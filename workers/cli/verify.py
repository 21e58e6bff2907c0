"""Runs `rotulus verify`: the record, computed again.

It prints what it found before anything else can go wrong: a finding that cannot be recorded (a tree
runs, the schema is altered) is printed all the same, and the error follows. It ends with 0 when
nothing was found, with 1 on findings and where there is nothing to read, with 2 when it was called
wrongly.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import click

from kernel.proof.handover_proof import follow_vkeys, verify_handover
from kernel.proof.proof_file import FILE_BYTES_MAX, verify_proof_file
from kernel.proof.witness_policy import POLICY_BYTES_MAX, WitnessPolicy
from kernel.verify import Verification
from kernel.verify.expected import ExpectedHead
from kernel.verify.export import verify_export
from kernel.verify.reading import finding_document
from kernel.verify.since import KeptTree
from workers.cli.checkpoint_verify import verify_evidence
from workers.cli.common import as_json, clean_errors, print_document, read_settings
from workers.cli.input_file import InputFile
from workers.cli.tree_head_argument import TreeHeadArgument
from workers.environment.checkpoint_folder import write_whole
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import LedgerPlace, ledger_place
from workers.environment.ledger_verification import record_findings, verify_file, verify_file_since
from workers.environment.terminal_progress import Progress
from workers.publication.exhibit.exhibit import EXHIBIT_BYTES_MAX
from workers.publication.exhibit.verification import verify_exhibit
from workers.views.audit import undoing_document

HEAD_CHARS_MAX: Final = 100


@click.command()
@click.option(
    "--export",
    type=InputFile(),
    help="Verify a file of `rotulus export` by itself, without a ledger; - is the standard input.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Leave a durable receipt of findings on the ledger; nothing else may run on it then.",
)
@click.option(
    "--expect-head",
    metavar="SEQUENCE:HASH",
    callback=lambda _context, _parameter, text: _expected_head(text),
    help="The `head` that an earlier verification printed: the log must hold that row still.",
)
@click.option(
    "--since",
    metavar="SIZE:ROOT",
    type=TreeHeadArgument(),
    help="Only what came since a `tree_head` that was kept; worth what its keeping is worth.",
)
@click.option(
    "--kept",
    "kept_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Only what came since the `tree_head` in FILE, everything where there is no FILE yet; FILE"
    " then holds the newest, if nothing was found. Keep it where who writes the ledger cannot."
    " [ROTULUS_VERIFIED_HEAD]",
)
@click.option(
    "--full",
    is_flag=True,
    help="Everything, as where no head is named; with --kept the head in FILE as well.",
)
@click.option(
    "--proof",
    type=InputFile(),
    help="Verify a file of `rotulus prove` by itself, without a ledger.",
)
@click.option(
    "--exhibit",
    type=InputFile(),
    help="Verify a page of `rotulus exhibit` by itself, without a browser or a ledger.",
)
@click.option(
    "--evidence",
    type=InputFile(),
    help="Judge a file of evidence that a log has signed two histories, without a ledger.",
)
@click.option(
    "--vkey",
    "vkeys",
    multiple=True,
    help="With --proof, --exhibit or --evidence: a key of the log, as `rotulus checkpoint key`"
    " printed it; of several with --proof or --exhibit each must have signed.",
)
@click.option(
    "--policy",
    type=click.File("rb"),
    help="With --proof: a file of tlog-policy, whose cosignatures count and how many are enough.",
)
@click.option(
    "--handover",
    "handovers",
    type=click.File("rb"),
    multiple=True,
    help="With --proof and --vkey: a proof of an operation by which the log was handed over; a key"
    " that was handed over is followed to the new one.",
)
@as_json
def verify(  # noqa: PLR0913 - as many ways to name what is verified
    export: BinaryIO | None,
    proof: BinaryIO | None,
    exhibit: BinaryIO | None,
    evidence: BinaryIO | None,
    vkeys: tuple[str, ...],
    *,
    policy: BinaryIO | None,
    handovers: tuple[BinaryIO, ...],
    expect_head: ExpectedHead | None,
    since: KeptTree | None,
    kept_file: Path | None,
    full: bool,
    record: bool,
    as_json: bool,
) -> None:
    """Recompute the whole record from its stored bytes and name the first bad row.

    Reads the ledger by itself; nothing else needs to run. Ends with 0 when nothing was found, with
    1 on any finding, where there is no ledger to read, and where a proof holds and fewer have
    cosigned than the policy asks for; with 2 when it was called wrongly.
    """
    if since is not None and (full or kept_file is not None):
        raise click.UsageError("--since names what to verify: leave --full and --kept out")
    if evidence is not None:
        _expect_key("--evidence", vkeys)
        with clean_errors():
            verify_evidence(evidence, vkeys, as_json=as_json)
        return
    if exhibit is not None:
        _verify_exhibit(exhibit, vkeys, as_json=as_json)
    if proof is not None:
        _verify_proof(proof, vkeys, policy, handovers, as_json=as_json)
    if export is not None:
        if record:
            raise click.UsageError("a file has no ledger to record a finding on")
        _verify_lines(export, expect_head, as_json=as_json)
    settings = read_settings()
    place = ledger_place(settings)
    if since is None and kept_file is None:
        kept_file = settings.verified_head
    kept = since if kept_file is None else _read_kept_tree(kept_file)
    with clean_errors(), Progress("verify") as progress:
        verification = _verification(
            place, kept, progress.count, full=full, expect_head=expect_head
        )
        progress.show(f"{verification.rows} rows")
    tree_head = f"{verification.rows}:{verification.tree_root}"
    document = {
        "verifies": verification.ok,
        "since": None if kept is None or full else f"{kept.size}:{kept.root.hex()}",
        "rows": verification.rows,
        "rows_archived": verification.rows_archived,
        "thoughts_archived": verification.thoughts_archived,
        "receipts": verification.receipts,
        "receipts_sealed": verification.receipts_sealed,
        "receipts_not_under_the_tree": verification.receipts_not_under_the_tree,
        "run_groups": verification.run_groups,
        "run_groups_not_under_the_tree": verification.run_groups_not_under_the_tree,
        "blobs": verification.blobs,
        "belief_sessions": verification.belief_sessions,
        "belief_events": verification.belief_events,
        "requests_open": verification.requests_open,
        "requests_closed": verification.requests_closed,
        "authorities_equal": verification.authorities_equal,
        "authorities_pending": verification.authorities_pending,
        "head": verification.head,
        "head_hash": verification.head_hash,
        "tree_root": verification.tree_root,
        "tree_head": tree_head,
        "not_checked": list(verification.not_checked),
        "undoings_that_differ": [
            undoing_document(undoing) for undoing in verification.undoings_that_differ
        ],
        "findings": [finding_document(finding) for finding in verification.findings],
    }
    try:
        if record and not verification.ok:
            with clean_errors(), DataFolder(settings.data_dir).lock():
                document["recorded_receipt_id"] = record_findings(place, verification)
    finally:
        # What was found is told whether or not it could be written down.
        print_document(document, as_json=as_json)
    if kept_file is not None and verification.ok:
        _keep(kept_file, tree_head)
    sys.exit(0 if verification.ok else 1)


def _verification(
    place: LedgerPlace,
    kept: KeptTree | None,
    step: Callable[[int, int], None],
    *,
    full: bool,
    expect_head: ExpectedHead | None,
) -> Verification:
    """Verify what came since a kept head, everything where none is, or both."""
    whole = None
    if kept is None or full:
        whole = verify_file(place, step, expect_head=expect_head)
        if kept is None or not whole.ok:
            return whole
    behind = verify_file_since(place, kept, step, expect_head=expect_head)
    return behind if whole is None or not behind.ok else whole


def _read_kept_tree(file: Path) -> KeptTree | None:
    """Return the tree head that a file holds, None where there is no file yet."""
    try:
        with file.open(encoding="ascii", errors="replace") as opened:
            return KeptTree.parse(opened.readline(HEAD_CHARS_MAX).rstrip("\n"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        hint = "--kept or ROTULUS_VERIFIED_HEAD"
        raise click.BadParameter(f"{file}, line 1: {error}", param_hint=hint) from None
    except OSError as error:
        raise click.ClickException(f"input_invalid: {file}: {error.strerror}") from None


def _keep(file: Path, tree_head: str) -> None:
    try:
        write_whole(file, f"{tree_head}\n".encode(), 0o600)
    except OSError as error:
        raise click.ClickException(f"output_unusable: {file}: {error.strerror}") from None


def _expected_head(text: str | None) -> ExpectedHead | None:
    try:
        return None if text is None else ExpectedHead.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _expect_key(option: str, vkeys: Sequence[str]) -> None:
    if not vkeys:
        raise click.UsageError(f"{option} needs --vkey: a file does not prove its own key")


def _verify_proof(
    proof: BinaryIO,
    vkeys: Sequence[str],
    policy_file: BinaryIO | None,
    handover_files: Sequence[BinaryIO],
    *,
    as_json: bool,
) -> NoReturn:
    if not vkeys and policy_file is None:
        message = "--proof needs --vkey or --policy: a file does not prove its own key"
        raise click.UsageError(message)
    with clean_errors():
        policy = None if policy_file is None else policy_file.read(POLICY_BYTES_MAX + 1)
        if policy is not None:
            WitnessPolicy.of_bytes(policy)  # which names the line that is none
        content = proof.read(FILE_BYTES_MAX + 1)
        if handover_files:
            handovers = [verify_handover(file.read(FILE_BYTES_MAX + 1)) for file in handover_files]
            vkeys = follow_vkeys(content, vkeys, handovers)
        document = verify_proof_file(content, *vkeys, policy=policy)
    print_document(document, as_json=as_json)
    sys.exit(0 if document["quorum_met"] else 1)


def _verify_exhibit(exhibit: BinaryIO, vkeys: Sequence[str], *, as_json: bool) -> NoReturn:
    _expect_key("--exhibit", vkeys)
    with clean_errors():
        document = verify_exhibit(exhibit.read(EXHIBIT_BYTES_MAX + 1), vkeys)
    print_document(document, as_json=as_json)
    sys.exit(0 if document["verifies"] else 1)


def _verify_lines(export: BinaryIO, expect_head: ExpectedHead | None, *, as_json: bool) -> NoReturn:
    with Progress("verify") as progress:
        verification = verify_export(
            export,
            progress=lambda rows: progress.show(f"{rows} rows"),
            expect_head=expect_head,
        )
    bad = verification.finding
    document = {
        "verifies": verification.ok,
        "lines": verification.lines,
        "rows": verification.rows,
        "receipts": verification.receipts,
        "head": verification.head,
        "head_hash": verification.head_hash,
        "tree_head": f"{verification.rows}:{verification.tree_root}",
        "findings": []
        if bad is None
        else [{"line": bad.line, "rule": bad.rule, "message": bad.message}],
    }
    print_document(document, as_json=as_json)
    sys.exit(0 if verification.ok else 1)
