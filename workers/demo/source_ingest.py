"""Takes any JSON of a file to a gateway, each line as a source that bindings may meet.

A line that states no id is known by its content, so running it again changes nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from uuid import UUID, uuid5

import structlog
from pydantic import ValidationError

from kernel.model.problems import first_problem
from kernel.values.json_lines import JsonLine, LineRefused, json_lines, printable_json
from workers.client.session_operations import SessionOperations
from workers.client.typed.gateway import GatewayClient
from workers.dockets.field_map import SOURCE_FIELDS, FieldMap
from workers.use_cases.source_intake import SourceRefused, value_as_source
from workers.views.belief_sessions import Ontology

LINE_BYTES_MAX = 1 << 20
SESSION_NAMESPACE = UUID("5c0f6f0e-8d0a-5b7e-9a57-736f75726365")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SourceSummary:
    """The counts of an ingest of sources."""

    sources: int = 0
    """Lines that are on the record now, or were before."""

    already_on_record: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    is_cut_off: bool = False

    @property
    def is_failed(self) -> bool:
        """Whether something was refused, or nothing was taken, or the file was not read whole."""
        return bool(self.refused) or self.is_cut_off or not self.sources

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON has it."""
        return {
            "sources": self.sources,
            "already_on_record": self.already_on_record,
            "operations_refused": dict(self.refused),
            "input_problems": dict(self.problems),
        }


class SourceIngest:
    """One ingest of a file of any JSON into one gateway."""

    def __init__(self, gateway: GatewayClient, name: str, fields: FieldMap) -> None:
        self.summary = SourceSummary()
        self._gateway = gateway
        self._name = name
        self._fields = fields

    async def run(self, file: BinaryIO) -> SourceSummary:
        """Post every line; bad ones are said and left out.

        Raises:
            GatewayError: the gateway stays away, or refuses all.
        """
        session_id = str(uuid5(SESSION_NAMESPACE, self._name))
        # Operations in an order belong to a session; this one has nothing to decide.
        session = {
            "session_id": session_id,
            "ontology": dict.fromkeys(Ontology.model_fields, "sources"),
            "hypotheses": [f"sources:{self._name}"],
            "metadata": {"case_name": f"sources:{self._name}"},
        }
        await self._gateway.post("/v1/sessions", session)
        operations = SessionOperations(self._gateway, session_id)
        async for outcome in operations.submit(self._intents(file)):
            if outcome.error is not None:
                raise outcome.error
            self._count(outcome.result or {})
        return self.summary

    def _intents(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        place = str(getattr(file, "name", ""))
        for line in json_lines(file, LINE_BYTES_MAX, are_objects=False):
            if isinstance(line, LineRefused):
                self.summary.is_cut_off = self.summary.is_cut_off or line.is_of_file
                self._say(place, line.line, line.code, "", str(line))
                continue
            try:
                intents = value_as_source(self._name, line.value, *self._texts(line)).intents()
            except LineRefused as refused:
                self._say(place, refused.line, refused.code, refused.field, str(refused))
            except SourceRefused as refused:
                self._say(place, line.number, refused.code, refused.field, str(refused))
            except ValidationError as error:
                self._say(place, line.number, "source_invalid", *first_problem(error))
            else:
                self.summary.sources += 1
                yield from (intent.model_dump(exclude_none=True) for intent in intents)

    def _texts(self, line: JsonLine) -> tuple[str, str | None]:
        """Return the text of a line, and the id that it states."""
        own = line.value if isinstance(line.value, dict) else {}
        stated = self._fields.read(own, SOURCE_FIELDS)
        source_id = stated.get("source_id")
        text = stated.get("text") if "text" in self._fields.paths else line.content.decode()
        for name, value in (("source_id", source_id), ("text", text)):
            if (value is not None or name == "text") and not isinstance(value, str):
                problem = "no such field" if value is None else printable_json(value)
                raise LineRefused("json_line_not_object", line.number, problem, "text", field=name)
            if value is not None and "\0" in value:
                problem, allowed = printable_json(value), "text without U+0000"
                raise LineRefused("json_line_not_object", line.number, problem, allowed, field=name)
        return str(text), source_id

    def _say(self, file: str, line: int, code: str, name: str, problem: str) -> None:
        self.summary.problems[code] += 1
        said = {"field": name} if name else {}
        _log.warning("source_problem", file=file, line=line, code=code, **said, problem=problem)

    def _count(self, result: Mapping[str, Any]) -> None:
        if result["validation_result"] != "accepted":
            self.summary.refused[result["reason_code"]] += 1
        elif result["duplicate"]:
            self.summary.already_on_record += 1
