"""Every answer that clients were given, and which of them the record has (§17).

Whoever puts a database back, or lets a standby take over, compares what was answered before with
the record afterwards, and that with what `rotulus ledger lost` lists: `expect_listed`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
import httpx

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.records.access.readable_view import OF_EVERYTHING, readable_view
from tests import loopback
from tests.system.gateways import HYPOTHESES, ONTOLOGY, elimination, session_id
from workers.environment.ledger_access import LedgerPlace, read_record
from workers.views.lost_answers import losses_document

ANSWER_S = 15.0
ALL = 10**9


class Name(NamedTuple):
    """Something that was answered, as the list of what is lost names it."""

    kind: str
    name: str
    sequence: int = 0


@dataclass
class Answers:
    """What clients were answered."""

    operations: set[Name] = field(default_factory=set)
    requests: set[Name] = field(default_factory=set)
    outcomes: set[Name] = field(default_factory=set)
    events: dict[str, int] = field(default_factory=dict)
    """By session, how many events it had in the newest answer."""

    @property
    def count(self) -> int:
        """How much was answered."""
        events = sum(self.events.values())
        return len(self.operations) + len(self.requests) + len(self.outcomes) + events

    def missing(self, view: LedgerView) -> set[Name]:
        """Return what of it the record does not have, as it was answered."""
        missing = {each for each in self.operations if not _has_operation(view, each)}
        missing |= {
            each for each in self.requests if view.tables.get(schema.outbox, each.name) is None
        }
        missing |= {
            each
            for each in self.outcomes
            if view.tables.get(schema.outbox_outcomes, each.name) is None
        }
        for session, events in self.events.items():
            row = view.tables.get(schema.belief_sessions, session)
            if row is None or row["n_events"] < events:
                missing.add(Name("session", session, events))
        return missing

    def forget(self, names: Iterable[Name]) -> None:
        """Leave out what is known to be lost, so that the rest is compared again."""
        lost = {(each.kind, each.name) for each in names}
        for answered in (self.operations, self.requests, self.outcomes):
            answered -= {each for each in answered if (each.kind, each.name) in lost}
        self.events = {
            session: events
            for session, events in self.events.items()
            if ("session", session) not in lost
        }


def _has_operation(view: LedgerView, name: Name) -> bool:
    row = view.log_row_at(name.sequence)
    return row is not None and bool(row["operation_id"] == name.name)


def listed_lost(place: LedgerPlace) -> tuple[set[Name], Mapping[str, Any]]:
    """Return what is listed as lost, with the whole document."""
    document = read_record(
        place, lambda view: losses_document(readable_view(view, OF_EVERYTHING), after=0, limit=ALL)
    )
    names = {Name(each["kind"], each["name"], int(each["sequence"])) for each in document["lost"]}
    return names, document


def expect_listed(place: LedgerPlace, answers: Answers) -> set[Name]:
    """Compare every answer with the record: what is missing is what is listed, and nothing more.

    Returns what is missing. What nobody was answered may be listed beside it, and is on the record
    neither.
    """
    missing = read_record(place, answers.missing)
    listed, document = listed_lost(place)
    assert all(each["is_all"] for each in document["findings"]), document["findings"]
    named = {(each.kind, each.name) for each in listed}
    unlisted = {each for each in missing if (each.kind, each.name) not in named}
    assert not unlisted, f"answered, gone and not listed: {sorted(unlisted)[:5]}"
    there = {each for each in answers.operations & listed if each not in missing}
    assert not there, f"listed and on the record: {sorted(there)[:5]}"
    return missing


class Clients:
    """Clients of gateways that go on whatever happens, and note what they are answered."""

    def __init__(self, answers: Answers, *urls: str) -> None:
        self._answers = answers
        self._https = [loopback.client(base_url=url, timeout=ANSWER_S) for url in urls]
        self._turn = 0
        self.codes: set[str] = set()
        """The codes of what was refused."""

    async def aclose(self) -> None:
        for http in self._https:
            await http.aclose()

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        """Ask a gateway once; None where it did not take it."""
        self._turn += 1
        http = self._https[self._turn % len(self._https)]
        try:
            response = await http.request(method, path, json=body)
        except httpx.TransportError:
            await anyio.sleep(0.02)
            return None
        if response.is_success:
            answer: dict[str, Any] = response.json()
            return answer
        self.codes.add(response.json()["error"]["code"])
        await anyio.sleep(0.02)
        return None

    async def declare(self, number: int) -> str:
        session = session_id(number)
        body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
        while await self.ask("POST", "/v1/sessions", body) is None:
            pass
        self._answers.events[session] = 1
        return session

    async def eliminate(self, session: str, number: int) -> bool:
        """Strike one more hypothesis; False where it was not taken."""
        path = f"/v1/sessions/{session}/eliminate"
        answer = await self.ask("POST", path, elimination(number))
        if answer is None:
            return False
        self._answers.events[session] = self._answers.events.get(session, 1) + 1
        return True

    async def operate(self, session: str, key: str) -> bool:
        """Put an operation through the kernel; False where it was not taken."""
        intent = {
            "intent_kind": "create_source",
            "intent_key": f"bring:{key}",
            "node_id": key,
            "corpus_id": "corpus",
            "content_kind": "letter",
            "text": "dear reader",
        }
        path = f"/v1/sessions/{session}/operations"
        answer = await self.ask("POST", path, {"intents": [intent]})
        if answer is None:
            return False
        [result] = answer["results"]
        name = Name("operation", result["operation_id"], int(result["ec_sequence_number"]))
        self._answers.operations.add(name)
        return True

    async def enqueue(self, queue: str, key: str, content: Any) -> str | None:
        """Ask a queue for work; return the request's id."""
        body = {"requests": [{"request_key": key, "content": content}]}
        answer = await self.ask("POST", f"/v1/queues/{queue}/requests", body)
        if answer is None:
            return None
        [receipt] = answer["requests"]
        request_id: str = receipt["request_id"]
        self._answers.requests.add(Name("request", request_id))
        return request_id

    async def complete(self, queue: str, key: str, content: Any) -> None:
        """Ask a queue for work until it is done."""
        while (request_id := await self.enqueue(queue, key, content)) is None:
            pass
        while await self.outcome(queue, request_id) is None:
            pass

    async def outcome(self, queue: str, request_id: str, wait_s: float = 1.0) -> str | None:
        """Return how a request ended; None while it has not."""
        path = f"/v1/queues/{queue}/requests/{request_id}/outcome?wait_s={wait_s}"
        answer = await self.ask("GET", path)
        if answer is None or answer["state"] == "open":
            return None
        self._answers.outcomes.add(Name("outcome", request_id))
        state: str = answer["state"]
        return state
