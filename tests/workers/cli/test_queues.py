"""`rotulus enqueue` and `rotulus queues`, against a gateway in the test's process."""

import gzip
import io
import json
import os
import pty
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from actors.commit.refusal_units import SetAsideUnit
from actors.errors import RequestSetAside
from kernel.ledger.shards import Position
from kernel.ledger.store.memory import MemoryStore
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import Door, running_door, transport_to
from tests.workers.cli.command import printed, rotulus
from workers.cli import enqueue as enqueue_module
from workers.cli import gateway_call
from workers.cli.common import say_what_is_read
from workers.cli.up import say_death, set_aside_lines
from workers.client import Rotulus
from workers.environment.data_folder import DataFolder
from workers.environment.terminal_progress import bar
from workers.process_tree.supervisor import AlikeDeaths


class LateTransport(httpx.AsyncBaseTransport):
    """Carries requests to a gateway that runs only afterwards."""

    app: Any = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await transport_to(self.app).handle_async_request(request)


class OneRecord:
    """A gateway for each call, all of them on one record."""

    def __init__(self) -> None:
        self.store, self.host = MemoryStore(), FakeHost().host
        self._stack = AsyncExitStack()

    def door(self) -> Any:
        return running_door(self.store, host=self.host)

    def client(self, _url: str, **_options: object) -> Any:
        record = self

        class ClientOfDoor:
            async def __aenter__(self) -> Any:
                return (await record._stack.enter_async_context(record.door())).client()

            async def __aexit__(self, *_: object) -> None:
                await record._stack.aclose()

        return ClientOfDoor()

    def rotulus(self, url: str, **_options: object) -> Any:
        record, late = self, LateTransport()

        class RotulusOfDoor(Rotulus):
            async def __aenter__(self) -> Any:
                late.app = (await record._stack.enter_async_context(record.door())).app
                return self

            async def __aexit__(self, *_: object) -> None:
                await record._stack.aclose()

        return RotulusOfDoor(url, give_up_after_s=0, transport=late)


@pytest.fixture
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(enqueue_module, "Rotulus", record.rotulus)
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    return record


def lines(*requests: dict[str, Any]) -> str:
    return "\n".join(json.dumps(request) for request in requests) + "\n\n"


def in_door(record: OneRecord, do: Any) -> Any:
    async def run() -> Any:
        async with record.door() as door:
            return await do(door)

    return anyio.run(run)


@pytest.mark.spec("K6")
def test_lines_are_asked_for_once_from_a_file_or_standard_input(record, tmp_path: Path):
    content = lines(binding("a"), binding("b"), {"content": binding("c")["content"]})
    file = tmp_path / "asked.jsonl"
    file.write_text(content)
    first = printed("enqueue", BINDING_QUEUE, str(file), "--json")
    assert (first["requests"], first["duplicates"]) == (3, 0)
    second = printed("enqueue", BINDING_QUEUE, "--json", stdin=content)
    assert second["duplicates"] == 2, "the line without a key is another request"
    assert second["asked"][0]["request_id"] == first["asked"][0]["request_id"]
    result = rotulus("enqueue", BINDING_QUEUE, str(file))
    assert result.stdout.splitlines() == ["requests: 3", "duplicates: 2"]
    assert "3/3" in result.stderr


def test_who_waits_is_told_what_did_not_end_in_time(record):
    result = rotulus(
        "enqueue", BINDING_QUEUE, "--wait", "--timeout", "0", "--json", stdin=lines(binding("a"))
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["outcomes"] == {"open": 1}
    assert document["ended"][0]["request_id"] == document["asked"][0]["request_id"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not JSON", "invalid_request: line 2: not JSON"),
        ('{"content":{"a":1,"a":2}}', "json_key_repeated: line 2: "),
        ('{"kind":"a","content":' + "[" * 1_000 + "]" * 1_000 + "}", "line 2: not JSON: nested"),
        ("[]", "line 2: not an object"),
        ('{"content": 1}', "line 2: not an object"),
        ('{"content": {}, "kind": 1}', "line 2: unknown field 'kind'"),
        ('{"content": {}, "run_at": "soon"}', 'line 2: "run_at" is no time'),
        (json.dumps({"content": {"x": "y" * 70_000}}), "line 2: longer than"),
        ('{"content": {}, "run_at": "2026-01-31"}', "a time with its zone"),
        ('{"content": {}, "request_key": ""}', 'line 2: "request_key" is no key: ""'),
        ('{"content": {}, "request_key": 7}', "allowed: text of 1 to 400 characters"),
        ('{"content": {}, "delay_s": 1.5}', 'line 2: "delay_s" is no delay: 1.5'),
        ('{"content": {}, "delay_s": -1}', "allowed: whole seconds from 0 to 2592000"),
        ('{"content": {}, "priority": []}', 'line 2: "priority" is no name: []'),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_sent(record, line, problem):
    result = rotulus("enqueue", BINDING_QUEUE, stdin=lines(binding("a")).strip() + "\n" + line)
    assert result.exit_code == 1
    assert problem in result.stderr
    shown = printed("queues", "--json")
    assert shown["requests"]["recorded"] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[{}]", "line 1: a JSON array; allowed: one JSON object a line"),
        (b"{\n}", "line 1: a JSON value that is written over several lines"),
        (b"PK\x03\x04", "a zip archive; allowed: plain text or gzip"),
    ],
)
def test_a_file_that_is_no_lines_is_said_with_its_name(record, tmp_path: Path, content, said):
    file = tmp_path / "asked.jsonl"
    file.write_bytes(content)
    result = rotulus("enqueue", BINDING_QUEUE, str(file))
    assert (result.exit_code, result.stderr.count("Error: ")) == (1, 1)
    assert f"Error: invalid_request: {file}" in result.stderr
    assert said in result.stderr


def test_lines_are_asked_for_however_they_were_written(record, tmp_path: Path):
    file = tmp_path / "asked.gz"
    content = lines(binding("a"), binding("b")).replace("\n", "\r\n").encode()
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + content))
    assert printed("enqueue", BINDING_QUEUE, str(file), "--json")["requests"] == 2


def test_what_the_record_refuses_is_named_by_its_place(record):
    result = rotulus(
        "enqueue", BINDING_QUEUE, stdin=lines(binding("a"), binding("b", binding_id=7))
    )
    assert result.exit_code == 1
    assert "Error: work_request_invalid: " in result.stderr
    assert "request 2: line 2: " in result.stderr
    assert "binding_id" in result.stderr
    assert (
        "Error: work_queue_unknown: " in rotulus("enqueue", "no", stdin=lines(binding("a"))).stderr
    )


def test_an_operator_sees_pauses_and_takes_back(record):
    requests = printed("enqueue", BINDING_QUEUE, "--json", stdin=lines(binding("a")))["asked"]
    output = rotulus("queues").stdout
    assert f"{BINDING_QUEUE}\n  open 1 = 0 ready + 1 held" in output
    for state in ("delayed", "in flight", "dead", "ready", "suspended", "oldest"):
        assert state in output
    why = ("--by", "ada", "--reason", "models are being exchanged")
    assert rotulus("queues", "pause", BINDING_QUEUE, *why).stdout == "changed: true\n"
    output = rotulus("queues").stdout
    assert f"{BINDING_QUEUE} paused at " in output
    assert "by ada at 127.0.0.1: models are being exchanged" in output
    assert rotulus("queues", "resume", BINDING_QUEUE).stdout == "changed: true\n"
    assert "paused at" not in rotulus("queues").stdout
    [request_id] = [request["request_id"] for request in requests]
    arguments = ("queues", "cancel", BINDING_QUEUE, request_id, "--reason", "why", "--by", "ada")
    assert rotulus(*arguments).stdout == "cancelled: 1\n"
    assert printed(*arguments, "--json")["cancelled"][0]["cancelled"] is False
    status = printed("queues", "request", BINDING_QUEUE, request_id)
    assert (status["state"], status["reason"]) == ("cancelled", "why")
    assert status["settled_by"] == "ada at 127.0.0.1"
    assert rotulus("queues", "why", BINDING_QUEUE, request_id).stdout == (
        "it does not wait: it is cancelled\n"
    )


def test_an_operator_lists_and_searches_the_requests_of_a_queue(record):
    async def ask(door: Door) -> list[dict[str, Any]]:
        return await enqueued(door, BINDINGS, binding("one"), binding("two"))

    [older, newer] = [request["request_id"] for request in in_door(record, ask)]
    output = rotulus("queues", "list", BINDING_QUEUE, "--limit", "1").stdout
    assert newer in output
    assert older not in output
    after = output.partition("more: --after ")[2].strip()
    assert older in rotulus("queues", "list", BINDING_QUEUE, "--after", after).stdout
    [request] = printed("queues", "list", BINDING_QUEUE, "--request-key", "one", "--json")[
        "requests"
    ]
    assert request["request_id"] == older
    assert rotulus("queues", "list", BINDING_QUEUE, "--state", "completed").stdout == "none\n"
    everywhere = rotulus("queues", "list").stdout
    assert everywhere.index(newer) < everywhere.index(older)
    [named] = printed("queues", "list", "--request-id", older, "--json")["requests"]
    assert named["queue"] == BINDING_QUEUE


def test_an_operator_lists_dead_letters_and_requeues_them(record):
    async def bury(door: Door) -> list[str]:
        requests = await enqueued(door, BINDINGS, *(binding(str(number)) for number in range(5)))
        for index, request in enumerate(requests):
            signature = "odd" if index == 0 else "broken"
            await given_up(door, BINDING_QUEUE, request["request_id"], signature)
        return [request["request_id"] for request in requests]

    ids = in_door(record, bury)
    output = rotulus("queues", "dead", BINDING_QUEUE).stdout
    assert "4  broken" in output
    assert all(request_id in output for request_id in ids)
    first = rotulus("queues", "dead", "--limit", "2").stdout
    after = first.partition("more: --after ")[2].strip()
    assert int(after) == 4, "the number of the older one of the newest two"
    rest = printed("queues", "dead", "--after", after, "--json")["dead_letters"]
    assert [letter["request_id"] for letter in rest] == ids[2::-1]
    assert {letter["queue"] for letter in rest} == {BINDING_QUEUE}
    odd = printed("queues", "dead", BINDING_QUEUE, "--error-signature", "odd", "--json")
    assert [letter["request_id"] for letter in odd["dead_letters"]] == ids[:1]
    assert rotulus("queues", "requeue", BINDING_QUEUE, ids[1]).stdout == "requeued: 1\n"
    arguments = ("queues", "requeue", BINDING_QUEUE, "--error-signature", "broken")
    assert rotulus(*arguments).stdout == "requeued: 3\n"
    because = ("--reason", "the case was closed")
    dismissed = rotulus("queues", "dismiss", BINDING_QUEUE, "--all", *because)
    assert dismissed.stdout == "dismissed: 1\n"
    assert rotulus("queues", "dismiss", BINDING_QUEUE, "--all").exit_code == 2
    assert rotulus("queues", "requeue", BINDING_QUEUE, "--all").stdout == "requeued: 0\n"
    assert rotulus("queues", "dead", BINDING_QUEUE).stdout == "none\n"
    assert rotulus("queues", "requeue", BINDING_QUEUE).exit_code == 2


def set_aside(record) -> str:
    """Set an entry aside on the record; return its offset."""
    offset = f"{1:015}-{0:020}"

    async def leave_a_finding(door: Door) -> None:
        unit = SetAsideUnit("session-a", 5, Position("0" * 16, offset), 3, "0" * 64)
        with pytest.raises(RequestSetAside):
            await door.services.write(unit)

    in_door(record, leave_a_finding)
    return offset


def test_an_operator_sees_what_was_set_aside_and_who_dies_alike(record, tmp_path: Path):
    offset = set_aside(record)
    death = {"name": "worker-1", "times": 3, "reason": "exit code 1", "last_line": "MemoryError"}
    with DataFolder(tmp_path / "data").lock() as folder:
        facts = {"gateway_url": "http://gateway", "died_alike": [death | {"at": "12:00"}]}
        folder.write_runtime(facts)
        said = rotulus("queues", "set-aside")
        document = printed("queues", "set-aside", "--json")
    _, finding, died = said.stdout.splitlines()
    assert finding.split()[1:] == ["5", offset, "gone", "session-a"]
    assert died == "12:00  worker-1 died alike 3 times  exit code 1  MemoryError"
    assert document["died_alike"] == facts["died_alike"]


def test_a_tree_says_who_dies_alike_and_what_was_set_aside(capsys):
    kept = {"shard": 5, "offset": "1-0", "bytes": 9}
    findings = [
        {"shard": "5", "offset": offset, "session_id": "session-a"} for offset in ("1-0", "0-0")
    ]
    say_death(AlikeDeaths("worker-1", 3, "exit code 1", "MemoryError"))
    [(line, place)] = list(set_aside_lines({"set_aside": [kept], "findings": findings}))
    assert place == ("5", "1-0")
    assert line.endswith("session-a: rotulus queues put-back 5 1-0")
    said = capsys.readouterr().err
    assert "worker-1 died 3 times, exit code 1: MemoryError" in said


def test_a_bar_says_how_much_is_done():
    assert bar(0, 0) == f"[{'.' * 24}] 0/0"
    assert bar(1, 2) == f"[{'#' * 12}{'.' * 12}] 1/2"
    assert bar(2, 2) == f"[{'#' * 24}] 2/2"


def test_a_command_that_reads_a_terminal_says_so_and_no_other(capsys):
    say_what_is_read(io.BytesIO())
    assert capsys.readouterr().err == ""
    terminal, ours = pty.openpty()
    with os.fdopen(ours, "rb") as file:
        say_what_is_read(file)
    os.close(terminal)
    assert "reading standard input until Ctrl-D" in capsys.readouterr().err
