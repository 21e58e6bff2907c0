"""A gateway that takes keys, and a secret word in a source of each visibility class."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from kernel.ledger import schema
from kernel.records.access.actions import Grant
from kernel.records.access.records import AccessDecision
from kernel.values.visibility import VISIBILITY_CLASSES
from tests.kernel import attempts
from tests.kernel.build import adapt, code_of, create, overlay
from tests.workers.api.door import Door, claim, rows, source, understanding
from workers.mcp.tools import TOOLS
from workers.questions.catalogue import QUESTIONS
from workers.use_cases.access import AccessChanges

OVERLAID = "overlaid"
"""What is public, and what an overlay lets nobody read."""

SECRETS = (*VISIBILITY_CLASSES, OVERLAID)
ENDLESS = {"/events"}
DAYS = 3_650
"""Tools read the time of the machine, which is later than that of the world."""

_PART = re.compile(r"\{(\w+)(?::\w+)?\}")
_BY_TEST = AccessDecision("person:owner", "for a test")


def word_of(secret: str) -> str:
    """The word that stands in the sources of a class, and in all that was drawn from them."""
    return f"canary{secret.replace('_', '')}"


def session_of(secret: str) -> str:
    return f"00000000-0000-4000-8000-00000000000{SECRETS.index(secret) + 1}"


def hidden_from(clearance: str) -> tuple[str, ...]:
    """The secrets that nobody learns who reads up to a class."""
    if clearance == "everything":
        return ()
    return SECRETS[VISIBILITY_CLASSES.index(clearance) + 1 :]


class Submit:
    """An envelope as the orchestrator's."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def run(self, context: Any) -> Any:
        return context.kernel.submit(context.transaction, self.document, "orchestrator")


@dataclass
class Classified:
    """What was written, and what it is called."""

    door: Door
    path: Path
    names: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By secret, and by the part of a path or query that may name it."""

    async def write(self) -> None:
        """Write of every class what there is of it on a record."""
        for secret in SECRETS:
            await self._write(secret)

    async def key_of(self, principal: str, *grants: tuple[str, str]) -> dict[str, str]:
        """The header of a new principal, whose grants are roles with clearances."""
        assert self.door.services.door is not None
        stated = [Grant(principal, role, "*", clearance) for role, clearance in grants]
        changes = AccessChanges(self.door.services.write, self.door.ledger.host)
        made = await changes.create_key(principal, stated, DAYS, _BY_TEST)
        await self.door.services.door.table.refresh()
        return {"Authorization": f"Bearer {made.key}"}

    async def annotate(self, secret: str) -> str:
        """Write of a class once more, and return the operation."""
        document = adapt(f"cu-{secret[:4]}", again=word_of(secret))
        await self._submit(document)
        return str(document["operation_id"])

    async def _write(self, secret: str) -> None:
        door, word = self.door, word_of(secret)
        visibility = secret if secret in VISIBILITY_CLASSES else "public_open"
        text = f"{word} The motion is DENIED."
        session, of = session_of(secret), f"{secret[:4]}"
        before = len(rows(door.ledger, schema.kernel_event_log))
        await self._post("/v1/sessions", declaration(session), 201)
        path = f"/v1/sessions/{session}"
        quoted = {"span": {"source_ref": f"src-{of}", "offset": 0, "length": len(word)}}
        intents = [
            source(f"src-{of}", text, visibility_class=visibility),
            understanding(f"cu-{of}", f"src-{of}", title=f"of {word}"),
            claim(f"cl-{of}", f"src-{of}", f"cu-{of}", **quoted, text=word),
        ]
        results = (await self._post(f"{path}/operations", {"intents": intents})).json()["results"]
        assert [each["validation_result"] for each in results] == ["accepted"] * 3, results
        struck = {
            "source_id": f"src-{of}",
            "observation_id": f"ob-{of}",
            "eliminated": ["a"],
            "justification": {"words": word, "source_ref": f"src-{of}"},
        }
        await self._post(f"{path}/eliminate", struck)
        await self._submit(adapt(f"cu-{of}", note=word))
        await self._refuse(secret, of)
        await self._ask_for_work(of, word)
        if secret == OVERLAID:
            await self._submit(overlay("cover", "blocked", "source_artifact", f"src-{of}"))
        self._name(secret, of, before)

    async def _refuse(self, secret: str, of: str) -> None:
        """Have operations refused, in whose receipts the word stands."""
        word = word_of(secret)
        refused = create(f"no-{of}", "Note", text=word, policy_generation_id="PG-0")
        refused |= {"policy_generation_id": "PG-0", "source_refs": [f"src-{of}"]}
        result = await self.door.services.write(Submit(refused))
        assert code_of(result) is not None
        self.names.setdefault(secret, {})["operation_id"] = [refused["operation_id"]]

    async def _submit(self, document: dict[str, Any]) -> None:
        result = await self.door.services.write(Submit(document))
        assert code_of(result) is None, result

    async def _ask_for_work(self, of: str, word: str) -> None:
        """Give a request up, whose error tells the word."""
        item = f"cu-{of}"
        requests = [row for row in rows(self.door.ledger, schema.outbox) if row["item_key"] == item]
        error: dict[str, Any] = {
            "code": f"broken: {word}",
            "signature": f"signed {word}",
            "final": True,
        }
        report = attempts.failed(requests[0]["request_id"], **error).model_dump(mode="json")
        report["error"] |= {"message": f"no {word}", "traceback": f"at {word}\n"}
        body = {"queue": requests[0]["queue"], "reports": [report]}
        answer = await self.door.reporter("work", body)
        assert answer.status_code == 200, answer.text

    def _name(self, secret: str, of: str, before: int) -> None:
        log = rows(self.door.ledger, schema.kernel_event_log)[before:]
        requests = [
            row for row in rows(self.door.ledger, schema.outbox) if f"-{of}" in row["item_key"]
        ]
        names = self.names[secret]
        nodes = [f"src-{of}", f"cu-{of}", f"cl-{of}"]
        operations = [row["operation_id"] for row in log[1:6]] + names["operation_id"]
        names |= {
            "operation_id": operations,
            "node_id": nodes,
            "session_id": [session_of(secret)],
            "request_id": [row["request_id"] for row in requests],
            "queue": ["authority-recompute"],
            "source_ref": nodes[:1],
            "record_id": [*nodes, *operations[:2]],
            "id": [*nodes, *operations[:2]],
            "entity": nodes,
            # By its beginning, so that an answer that repeats what was asked for tells nothing.
            "text": [word_of(secret)[:-1], *nodes],
            "q": [word_of(secret)[:-1], *nodes],
            "item_key": nodes,
            "ec_sequence_number": [str(row["ec_sequence_number"]) for row in log[:4]],
            "at": [str(log[-1]["ec_sequence_number"])],
            "words": [word_of(secret)[:-1]],
            "error_signature": ["signed"],
        }

    async def _post(self, path: str, body: Any, status: int = 200) -> Any:
        response = await self.door.send(path, body)
        assert response.status_code == status, response.text
        return response


def declaration(session: str) -> dict[str, Any]:
    ontology = {
        "hypothesis_space_id": "space",
        "hypothesis_version": "v1",
        "causal_graph_ref": "none",
        "causal_graph_version": "0",
    }
    return {"session_id": session, "ontology": ontology, "hypotheses": ["a", "b", "c"]}


def reading_paths(door: Door, names: dict[str, list[str]]) -> Iterator[str]:
    """Every path that is read, its parts named by what a class has, and every query of it."""
    for route in door.app.routes:
        assert isinstance(route, APIRoute)
        if "GET" not in (route.methods or ()) or route.path in ENDLESS:
            continue
        parts = _PART.findall(route.path)
        path = route.path
        for number in range(max((len(names.get(part, ())) for part in parts), default=1) or 1):

            def named(match: re.Match[str], number: int = number) -> str:
                known = names.get(match[1]) or ["1"]
                return known[number % len(known)]

            path = _PART.sub(named, route.path)
            yield path
        for query in _queries_of(route):
            yield from (f"{path}?{query}={name}" for name in names[query])


def calls_of(names: dict[str, list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call of every tool that reads, its arguments what a class has."""
    for name, tool in TOOLS.items():
        if tool.writes or name == "query":
            continue
        fields = tool.model_fields
        required = (each for each, stated in fields.items() if stated.is_required())
        needed = {each: names.get(each, ["1"])[0] for each in required}
        yield name, needed
        for each in fields.keys() & names.keys():
            yield from ((name, {**needed, each: value}) for value in names[each][:2])


def _queries_of(route: APIRoute) -> Iterator[str]:
    """What a query of a route may name: the fields of a question, and what pages take."""
    question = QUESTIONS.get(route.name)
    fields = _OF_PAGES.get(route.path, ()) if question is None else question.model_fields
    yield from (name for name in fields if name in _ASKED and f"{{{name}" not in route.path)


_ASKED = frozenset(
    {"entity", "session_id", "record_id", "text", "words", "request_id", "error_signature", "at"}
    | {"item_key", "q", "id"}
)
_OF_PAGES = {
    "/": ("at",),
    "/nodes/{node_id:path}": ("at",),
    "/sessions/{session_id}": ("at",),
    "/sessions": ("words", "at"),
    "/search": ("q",),
    "/explain": ("id",),
    "/exhibit": ("id",),
    "/requests": ("words", "request_id"),
    "/requests.csv": ("words",),
    "/requests.jsonl": ("words",),
    "/operations": ("entity", "at"),
    "/bulk-operations/preview": ("words",),
}
