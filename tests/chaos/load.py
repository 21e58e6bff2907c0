"""Producers that ask a fleet for work until they are answered, and write down every answer.

Each producer has a belief session and two active bindings over its papers: one that fires as a
paper is taken in, one that waits for its conversion. It goes through rounds: ten intents, three
eliminations, a paper and its conversion, two bindings and an extraction of six steps, each under a
key of its own. What was not answered is asked
again under the same key, of the other gateway. Work is asked for over HTTP and, every other round,
on the ledger as a process beside the gateways does it. One intent a round is asked for once alone:
where the answer says that nothing was taken, it must not be on the record. An answer counts once it
is on disk.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import httpx

from actors.error_codes import ERRORS
from actors.orchestrator.intents import CompletePhase, CreateBinding, CreateSource, Intent
from kernel.ledger.ledger import Ledger
from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest, enqueue
from tests import loopback
from tests.bench.mix import ROUND, intent_of
from tests.system.extractions import STATES, steps
from tests.system.gateways import HYPOTHESES, ONTOLOGY, elimination
from workers.environment.ledger_access import LedgerPlace, open_store
from workers.environment.system_host import system_host

ELIMINATIONS = 3
BINDINGS = ("background", "critical")
QUEUE_KINDS = {BINDING_QUEUE: "binding", EXTRACTION_QUEUE: "extraction"}
PAPER = "chaos/paper"
PER_ROUND = ROUND + 1 + ELIMINATIONS + 2 + len(BINDINGS) + len(STATES) - 1
ANSWER_S = 15.0
AGAIN_S = 0.1
TRANSIENT = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How much is asked, by how many, over what time."""

    producers: int
    rounds: int
    seconds: float

    @classmethod
    def of(cls, requests: int, seconds: float, producers: int) -> "LoadPlan":
        """Return the plan that asks for at least so much."""
        return cls(producers, -(-requests // (producers * PER_ROUND)), seconds)

    @property
    def requests(self) -> int:
        """How many requests are asked in all, the declarations left out."""
        return self.producers * self.rounds * PER_ROUND


class Answers:
    """A file of answers, each on disk before anybody goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.waits_s: list[tuple[float, float]] = []
        """When something was asked for first, and when it was answered: by the monotonic clock."""

        self.again: Counter[str] = Counter()
        """Why something had to be asked again, how often."""

        self._file = path.open("a")

    def add(self, answers: Sequence[dict[str, Any]]) -> None:
        """Append answers and wait for the disk."""
        self._file.writelines(json.dumps(answer) + "\n" for answer in answers)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.count += len(answers)

    def close(self) -> None:
        self._file.close()


def read_answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def session_of(producer: int) -> str:
    """Return the id of a producer's session."""
    return str(UUID(int=producer, version=4))


def work_of(producer: int, turn: int) -> list[WorkRequest]:
    """Return the bindings and the steps of a round."""
    own = f"{producer}-{turn}"
    bindings = [
        WorkRequest(
            BINDING_QUEUE,
            f"b-{own}-{priority}",
            {
                "binding_id": f"b-{own}-{priority}",
                "source_event_id": f"e-{own}",
                "capacity_priority": priority,
            },
        )
        for priority in BINDINGS
    ]
    return [*bindings, *steps(f"run-{own}")]


def watches_of(producer: int) -> list[CreateBinding]:
    """Return the bindings over a producer's papers, each into a corpus of its own."""
    intake = {"kind": "source_kind", "value": f"producer-{producer}"}
    converted = {"kind": "content_type", "value": PAPER}
    selectors = {"intake": [intake], "converted": [intake, converted]}
    return [
        CreateBinding(
            intent_key=f"watch-{producer}-{name}",
            binding_id=f"watch-{producer}-{name}",
            corpus_id=f"watched-{producer}-{name}",
            selector_list={"include": include},
            target_kind="corpus_document_membership",
        )
        for name, include in selectors.items()
    ]


def paper_of(producer: int, turn: int) -> tuple[CreateSource, CompletePhase]:
    """Return how a round's paper is taken in, and what its conversion came to."""
    name = f"paper-{producer}-{turn}"
    taken_in = CreateSource(
        intent_key=name,
        node_id=name,
        corpus_id="c",
        content_kind="motion",
        text="A paper.",
        source_kind=f"producer-{producer}",
    )
    converted = CompletePhase(
        intent_key=f"{name}-converted",
        artifact_ref=name,
        phase="post_doc25_conversion",
        fields={"content_type": PAPER},
    )
    return taken_in, converted


class LoadProducer:
    """One producer; it asks for one thing after the other."""

    def __init__(
        self, number: int, plan: LoadPlan, urls: Sequence[str], place: LedgerPlace, answers: Answers
    ) -> None:
        self._number = number
        self._plan = plan
        self._place = place
        self._answers = answers
        self._session = session_of(number)
        self._https = [loopback.client(base_url=url, timeout=ANSWER_S) for url in urls]
        self._turn = count(number)
        self._ledger: Ledger | None = None

    async def run(self) -> None:
        """Declare, then go through the rounds, each no sooner than planned."""
        began_s = time.monotonic()
        body = {"session_id": self._session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
        await self._asked("/v1/sessions", body)
        self._record([{"kind": "declared", "session": self._session}])
        try:
            await self._operate(watches_of(self._number))
            for turn in range(self._plan.rounds):
                # One after the other, so that whatever happens meets somebody who asks.
                place = turn + self._number / self._plan.producers
                due_s = began_s + place / self._plan.rounds * self._plan.seconds
                await anyio.sleep(max(0.0, due_s - time.monotonic()))
                await self._round(turn)
        finally:
            # Another producer may have failed, and cancelled this one.
            with anyio.CancelScope(shield=True):
                if self._ledger is not None:
                    await anyio.to_thread.run_sync(self._ledger.close)
                for http in self._https:
                    await http.aclose()

    async def _round(self, turn: int) -> None:
        over_http = turn % 2 == 0
        await (self._ask_for_work if over_http else self._record_work)(work_of(self._number, turn))
        await self._operate_once(f"once-{self._number}-{turn}")
        half = ROUND // 2
        for first in (turn * ROUND, turn * ROUND + half):
            await self._operate(
                [intent_of(self._number, number) for number in range(first, first + half)]
            )
        await self._bring_paper(turn)
        for number in range(turn * ELIMINATIONS, (turn + 1) * ELIMINATIONS):
            # What was struck may be struck again; a session without hypotheses would have ended.
            body = elimination(number % (len(HYPOTHESES) // 2))
            body["observation_id"] = f"o-{number}"
            await self._asked(f"/v1/sessions/{self._session}/eliminate", body)
            observed = {"session": self._session, "observation": f"o-{number}"}
            self._record([{"kind": "eliminated", **observed}])

    async def _bring_paper(self, turn: int) -> None:
        taken_in, converted = paper_of(self._number, turn)
        await self._operate([taken_in])
        await self._operate([converted])
        watches = [watch.binding_id for watch in watches_of(self._number)]
        self._record([{"kind": "watched", "artifact": taken_in.node_id, "bindings": watches}])

    async def _operate(self, intents: Sequence[Intent]) -> None:
        body = {
            "intents": [intent.model_dump(mode="json", exclude_none=True) for intent in intents]
        }
        while True:
            answer = await self._asked(f"/v1/sessions/{self._session}/operations", body)
            results = answer["results"]
            self._record(
                [
                    _operated(intent, result)
                    for intent, result in zip(intents, results, strict=True)
                    if result["validation_result"] == "accepted"
                ]
            )
            left = [result for result in results if result["validation_result"] != "accepted"]
            if not left:
                return
            self._answers.again[f"result {left[0]['reason_code']}"] += 1
            await anyio.sleep(AGAIN_S)

    async def _operate_once(self, key: str) -> None:
        """Ask for something once alone, and keep a refusal by which nothing was taken."""
        intent = CreateSource(
            intent_key=key, node_id=key, corpus_id="c", content_kind="motion", text="Once."
        )
        body = {"intents": [intent.model_dump(mode="json", exclude_none=True)]}
        path = f"/v1/sessions/{self._session}/operations"
        try:
            response = await self._https[next(self._turn) % len(self._https)].post(path, json=body)
        except httpx.TransportError:
            return
        answer = response.json()
        if response.is_success:
            [result] = answer["results"]
            if result["validation_result"] == "accepted":
                self._record([_operated(intent, result)])
            else:
                self._record([{"kind": "refused", "node": key, "code": result["reason_code"]}])
        elif not ERRORS[code := answer["error"]["code"]].may_be_taken:
            self._record([{"kind": "refused", "node": key, "code": code}])

    async def _ask_for_work(self, requests: Sequence[WorkRequest]) -> None:
        """Ask a gateway for work, a queue after the other."""
        for queue in QUEUE_KINDS:
            bodies = [
                {"request_key": request.request_key, "content": request.content}
                for request in requests
                if request.queue == queue
            ]
            answer = await self._asked(f"/v1/queues/{queue}/requests", {"requests": bodies})
            self._record([_requested(queue, taken["request_id"]) for taken in answer["requests"]])

    async def _record_work(self, requests: Sequence[WorkRequest]) -> None:
        """Record requests for work, as a process beside the gateways does."""
        asked_s = time.monotonic()
        while True:
            try:
                request_ids = await anyio.to_thread.run_sync(self._enqueue, requests)
            except (LedgerUnavailable, CommitOutcomeUnknown) as error:
                self._answers.again[f"enqueue {error.code}"] += 1
                await anyio.sleep(AGAIN_S)
                continue
            self._answers.waits_s.append((asked_s, time.monotonic()))
            self._record(
                [
                    _requested(request.queue, request_id)
                    for request, request_id in zip(requests, request_ids, strict=True)
                ]
            )
            return

    def _enqueue(self, requests: Sequence[WorkRequest]) -> list[str]:
        """Record requests as a process beside the gateways does."""
        ledger = self._ledger or Ledger(open_store(self._place), system_host())
        self._ledger = ledger
        try:
            with ledger.transaction() as transaction:
                return [receipt.request_id for receipt in enqueue(transaction, requests)]
        except (LedgerUnavailable, CommitOutcomeUnknown):
            # What it believes of the record may be old now.
            self._ledger = None
            ledger.close()
            raise

    async def _asked(self, path: str, body: Any) -> dict[str, Any]:
        asked_s = time.monotonic()
        while True:
            http = self._https[next(self._turn) % len(self._https)]
            try:
                response = await http.post(path, json=body)
            except httpx.TransportError as error:
                self._answers.again[type(error).__name__] += 1
                await anyio.sleep(AGAIN_S)
                continue
            if response.status_code not in TRANSIENT:
                assert response.is_success, f"{path}: {response.status_code}: {response.text}"
                self._answers.waits_s.append((asked_s, time.monotonic()))
                answer: dict[str, Any] = response.json()
                return answer
            assert "Retry-After" in response.headers
            self._answers.again[response.json()["error"]["code"]] += 1
            await anyio.sleep(AGAIN_S)

    def _record(self, answers: Sequence[dict[str, Any]]) -> None:
        self._answers.add(answers)


def _operated(intent: Intent, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "operated",
        "intent_key": intent.intent_key,
        "node": _node_of(intent),
        "intent": intent.intent_kind,  # type: ignore[attr-defined]
        "operation": result["operation_id"],
        "row_hash": result["row_hash"],
    }


def _node_of(intent: Intent) -> str:
    names = ("node_id", "artifact_ref", "binding_id")
    return next(str(getattr(intent, name)) for name in names if hasattr(intent, name))


def _requested(queue: str, request_id: str) -> dict[str, Any]:
    return {"kind": "requested", "request": request_id, "queue": QUEUE_KINDS[queue]}


async def produce(
    plan: LoadPlan, urls: Sequence[str], place: LedgerPlace, answers: Answers
) -> None:
    """Run every producer to its end."""
    async with anyio.create_task_group() as tasks:
        for number in range(plan.producers):
            tasks.start_soon(LoadProducer(number, plan, urls, place, answers).run)
