"""Runs the main job, from nothing to a verified record: start, ingest, drain, verify."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import anyio
import anyio.to_thread

from kernel.audit.work_done import work_counts
from kernel.verify import Verification
from workers.client.typed.gateway import GatewayClient
from workers.demo.ingest import Ingest, IngestedCase, Summary, show_ingest
from workers.demo.shown_proof import ShownProof
from workers.environment.ledger_access import LedgerPlace, open_record
from workers.environment.ledger_verification import verify_file
from workers.environment.terminal_progress import Progress
from workers.process_tree.tree import Tree

POLL_S = 0.2
SURVIVORS_SHOWN = 3


@dataclass(slots=True)
class DemoReport:
    """The results of the job, and how long each step took."""

    summary: Summary
    requests: dict[str, Any]
    verification: Verification
    seconds: dict[str, float] = field(default_factory=dict)
    work: dict[str, Any] = field(default_factory=dict)
    """What was done by queue and by binding, and what came of it (`kernel/audit/work_done.py`)."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    """What was concluded of some cases, and why."""

    proof: ShownProof | None = None
    """A checkpoint to keep, and a proof under it; None where there is no log to sign."""

    @property
    def failures(self) -> list[str]:
        """What went wrong on our side; bad input is not among it."""
        failures = [f"docket {name} was not ingested" for name in self.summary.failed_dockets]
        failures += [
            f"{count} operations refused: {code}" for code, count in self.summary.refused.items()
        ]
        if self.requests["open"]:
            failures.append(f"{self.requests['open']} requests have no outcome")
        if self.requests["outcomes"]["dead_letter"]:
            failures.append(f"{self.requests['outcomes']['dead_letter']} requests were given up")
        if self.verification.authorities_pending:
            failures.append(f"{self.verification.authorities_pending} authorities are pending")
        failures += [
            f"{finding.table} {finding.key}: {finding.message}"
            for finding in self.verification.findings
        ]
        if self.proof is not None and not self.proof.verifies:
            failures.append(f"the proof does not verify: {self.proof.verifier_says}")
        return failures

    def document(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        verification = self.verification
        return {
            "ingest": self.summary.document(),
            "requests": self.requests,
            "work": self.work,
            "cases": self.cases,
            "record": {
                "rows": verification.rows,
                "receipts": verification.receipts,
                "belief_sessions": verification.belief_sessions,
                "belief_events": verification.belief_events,
                "authorities_equal": verification.authorities_equal,
                "head_hash": verification.head_hash,
                "verifies": verification.ok,
            },
            "proof": None if self.proof is None else self.proof.document(),
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "failures": self.failures,
        }


async def run_demo(
    tree: Tree, lines: BinaryIO | Iterable[bytes], size_bytes: int | None = None
) -> DemoReport:
    """Ingest dockets into a running tree, wait for its workers, and verify the record.

    Where the size of the lines is known, the ingest shows how long it still takes.
    """
    seconds: dict[str, float] = {}
    async with GatewayClient(tree.gateway_url) as gateway:
        with Progress("ingest") as progress:
            show = partial(_show_ingest, progress, size_bytes)
            summary = await Ingest(gateway, show).run(lines)
            show(summary)
            seconds["ingest"] = progress.elapsed_s
        with Progress("queues") as progress:
            requests = await _wait_until_drained(gateway, progress)
            seconds["drain"] = progress.elapsed_s
        cases = [await _conclusion_of(gateway, case) for case in summary.cases]
    with Progress("verify") as progress:
        verification = await anyio.to_thread.run_sync(
            verify_file,
            tree.ledger_place,
            progress.count,
        )
        progress.show(f"{verification.rows} rows")
        seconds["verify"] = progress.elapsed_s
    work = await anyio.to_thread.run_sync(_work_counts, tree.ledger_place)
    return DemoReport(summary, requests, verification, seconds, work, cases)


def _work_counts(place: LedgerPlace) -> dict[str, Any]:
    with open_record(place) as view:
        return work_counts(view)


async def _conclusion_of(gateway: GatewayClient, case: IngestedCase) -> dict[str, Any]:
    """Return what is left of a case's postures, and the last words that struck one."""
    snapshot = await gateway.get(f"/v1/sessions/{case.session_id}")
    last = case.last_strike
    return {
        "case_name": case.case_name,
        "session_id": case.session_id,
        "n_survivors": snapshot["n_survivors"],
        "survivors": snapshot["survivors"][:SURVIVORS_SHOWN],
        "why": None if last is None else last.justification.document(),
    }


async def _wait_until_drained(gateway: GatewayClient, progress: Progress) -> dict[str, Any]:
    while True:
        requests: dict[str, Any] = (await gateway.get("/v1/queues"))["requests"]
        ended = requests["recorded"] - requests["open"]
        progress.show(f"{ended} of {requests['recorded']} requests have their outcome")
        if not requests["open"] and not await _is_routing(gateway):
            return requests
        await anyio.sleep(POLL_S)


async def _is_routing(gateway: GatewayClient) -> bool:
    """Tell whether a standing binding is still being brought to older artifacts."""
    page = await gateway.get("/v1/bindings?limit=100")
    return any(binding["is_being_routed"] for binding in page["bindings"])


def _show_ingest(progress: Progress, size_bytes: int | None, summary: Summary) -> None:
    if size_bytes is not None and summary.bytes_done < size_bytes:
        show_ingest(progress, size_bytes, summary)
        return
    progress.show(
        f"{summary.dockets} dockets, {summary.entries} entries, "
        f"{summary.accepted} operations, {summary.eliminated} hypotheses eliminated"
    )
