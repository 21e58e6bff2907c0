"""A question has one answer, and one refusal, at every door."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.errors import KernelError
from tests.kernel.build import FakeHost
from tests.ledgers.make import write
from tests.workers.api.door import Door, running_door
from tests.workers.cli.command import commands, rotulus
from workers.cli.main import COMMANDS
from workers.cli.question_commands import plain
from workers.environment.ledger_access import open_record
from workers.mcp.server import call
from workers.mcp.tool import ToolContext
from workers.questions.catalogue import QUESTIONS
from workers.questions.question import Question

pytestmark = pytest.mark.anyio

NOBODY = "00000000-0000-4000-8000-00000000abcd"

# The name of a question, its fields, and the words of the command that asks it of the record.
ANSWERED: list[tuple[str, dict[str, Any], str]] = [
    ("find_operations", {"semantic_intent": "create", "limit": 3}, "audit operations"),
    ("find_operations", {"order": "newest", "after": 9, "limit": 4}, "audit operations"),
    ("list_log", {"order": "newest", "limit": 2}, "show log"),
    ("list_log", {"after": 210, "limit": 9}, "show log"),
    ("get_node", {"node_id": "cu-a"}, "show node"),
    ("explain_authority", {"node_id": "cu-a"}, "audit authority"),
    ("search", {"text": "cu-"}, "search"),
    ("list_costs", {"limit": 2}, "audit costs"),
    ("list_adjudications", {"state": "resolved", "limit": 2}, "audit adjudications"),
    ("list_reviews", {"kind": "outcome", "limit": 2}, "review queue"),
    ("list_sessions", {"limit": 1}, "show sessions"),
]
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("get_node", {"node_id": "x"}, "show node", "not_found"),
    ("get_operation", {"operation_id": "x"}, "show operation", "not_found"),
    ("get_ancestors", {"operation_id": "x"}, "audit ancestors", "not_found"),
    ("explain_authority", {"node_id": "x"}, "audit authority", "not_found"),
    ("get_extraction", {"extraction_run_id": "x"}, "show extraction", "extraction_run_not_known"),
    ("get_source_fields", {"source_ref": "x"}, "show source", "not_found"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record") / "data"
    folder.mkdir(mode=0o700)
    write(folder / "ledger.db")
    return folder


async def of_record(folder: Path, question: Question) -> Any:
    def answer() -> Any:
        with open_record(folder / "ledger.db") as view:
            return plain(question.answer(view))

    return await anyio.to_thread.run_sync(answer)


@pytest.fixture
async def door(folder: Path) -> AsyncIterator[Door]:
    store = SqliteStore(folder / "ledger.db")
    async with running_door(store, host=FakeHost().host) as door:
        yield door
    store.close()


async def of_tool(folder: Path, name: str, fields: dict[str, Any]) -> Any:
    context = ToolContext(folder / "ledger.db", lambda: "http://127.0.0.1:9")
    [content] = (await call(context, name, fields)).content
    return json.loads(content.text)


async def of_command(folder: Path, words: str, question: Question) -> Any:
    fields = question.model_dump(mode="json", exclude_unset=True)
    schema = type(question).model_json_schema()
    named = {*type(question).fields_in_paths(), *schema.get("required", ())}
    arguments = [str(value) for name, value in fields.items() if name in named]
    options = [
        word
        for name, value in fields.items()
        if name not in named
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    place = ("--data-dir", str(folder))
    return await anyio.to_thread.run_sync(
        lambda: rotulus(*words.split(), *arguments, *options, "--json", *place)
    )


@pytest.mark.parametrize(("name", "fields", "words"), ANSWERED)
async def test_every_door_has_the_same_answer(folder, door, name, fields, words):
    question = QUESTIONS[name].model_validate(fields)
    answer = await of_record(folder, question)
    path, query = question.address()
    assert (await door.http.get(path, params=query)).json() == answer
    tool = await of_tool(folder, name, fields)
    if question.rows:
        following = answer.pop("next_after")
        assert tool.pop("next") == (None if following is None else {"after": following})
        answer["next_after"] = following
    del tool["summary"]
    assert tool.items() <= answer.items()
    printed = await of_command(folder, words, question)
    assert json.loads(printed.stdout) == answer


@pytest.mark.parametrize(("name", "fields", "words", "code"), REFUSED)
async def test_every_door_refuses_in_the_same_words(folder, door, name, fields, words, code):
    question = QUESTIONS[name].model_validate(fields)
    with pytest.raises(KernelError) as refused:
        await of_record(folder, question)
    message = str(refused.value)
    path, _ = question.address()
    error = (await door.http.get(path)).json()["error"]
    assert (error["code"], error["message"]) == (code, message)
    error = (await of_tool(folder, name, fields))["error"]
    assert (error["code"], error["message"]) == (code, message)
    printed = await of_command(folder, words, question)
    assert (printed.exit_code, f"{code}: {message}" in printed.stderr) == (1, True)


@pytest.mark.parametrize("limit", [0, 501, "x"])
async def test_every_door_has_the_same_bounds(folder, door, limit):
    assert (await door.http.get("/v1/audit/operations", params={"limit": limit})).status_code == 422
    error = (await of_tool(folder, "find_operations", {"limit": limit}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    arguments = ("audit", "operations", "--limit", str(limit), "--data-dir", str(folder))
    assert rotulus(*arguments).exit_code == 2


async def test_no_door_takes_a_field_that_a_question_has_not(folder, door):
    response = await door.http.get("/v1/log", params={"limit": 1, "lmit": 1})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "INVALID_REQUEST")
    error = (await of_tool(folder, "list_log", {"lmit": 1}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert rotulus("show", "log", "--lmit", "1").exit_code == 2
    twice = await door.http.get(f"/v1/nodes/cu-a?node_id={NOBODY}")
    assert twice.status_code == 422


def test_the_options_of_a_command_are_the_fields_of_its_question():
    made = {command.help: command for name in COMMANDS for _, command in commands(name)}
    for question in QUESTIONS.values():
        command = made.get(question.description())
        if command is not None:
            fields = {parameter.name for parameter in command.params} - {"as_json"}
            assert fields - {"data_dir", "gateway"} == set(question.model_fields), question.name
