"""Commands whose standard streams are closed, full or left, and terminals that strangers reach."""

import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost
from tests.ports import free_port
from tests.workers.cli.command import commands, printed, rotulus
from tests.workers.environment.test_output import HOSTILE, hidden_in
from workers.cli import places
from workers.cli.demo import print_proof
from workers.cli.main import COMMANDS, main
from workers.demo.shown_proof import ShownProof
from workers.environment.data_folder import DataFolder

ROOT = Path(__file__).parents[3]

REDIRECTIONS = {
    "closed input": "<&-",
    "closed output": ">&-",
    "closed errors": "2>&-",
    "full errors": "2>/dev/full",
    "nothing open": "<&- >&- 2>&-",
    "a reader that left": "| true",
}


@pytest.fixture
def ledger(data_folder: DataFolder) -> Ledger:
    return Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)


def in_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", line, sys.executable],
        env={**os.environ, **environment},
        input="",
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code", "redirection"),
    [
        *(("show log", 0, REDIRECTIONS[name]) for name in ("closed output", "nothing open")),
        *(
            ("settings", 0, REDIRECTIONS[name])
            for name in ("closed input", "full errors", "a reader that left")
        ),
        *(("show node nobody", 1, REDIRECTIONS[name]) for name in ("closed errors", "full errors")),
    ],
)
def test_a_command_does_its_work_whatever_its_streams_are(ledger, command, code, redirection):
    ledger.close()
    ended = in_shell(f'"$0" -m workers {command} {redirection}')
    assert ended.returncode in ({code, 1} if redirection == "| true" else {code})
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "Exception ignored" not in ended.stdout + ended.stderr
    if redirection == "| true":
        assert "output_unusable" not in ended.stderr


@pytest.mark.parametrize(
    "command",
    ["settings", "--help", "show log --json", "export"],
)
def test_what_cannot_be_printed_is_said_in_one_line(ledger, command):
    ledger.close()
    ended = in_shell(f'"$0" -m workers {command} >/dev/full')
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("Error: output_unusable: standard output: No space left on device")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_text_ends_in_a_traceback(name, monkeypatch, capsys):
    for path, _ in commands(name):
        with open("/dev/full", "w") as full:  # noqa: PTH123
            monkeypatch.setattr(sys, "stdout", full)
            with pytest.raises(SystemExit) as ended:
                main([*path, "--help"])
            assert ended.value.code == 1, path
        assert "output_unusable" in capsys.readouterr().err, path


@pytest.mark.parametrize(
    "redirection",
    ["<&- >&-", pytest.param("<&- 2>&-", marks=pytest.mark.nightly), "</dev/null 2>/dev/full"],
)
def test_the_mcp_server_ends_where_nobody_speaks(ledger, redirection):
    ledger.close()
    ended = in_shell(f'"$0" -m workers mcp {redirection}')
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_mcp_server_says_that_it_cannot_answer(ledger):
    ledger.close()
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
    )
    ended = in_shell(f"(echo '{hello}'; sleep 2) | \"$0\" -m workers mcp >/dev/full")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: output_unusable: standard output: No space")
    assert "Traceback" not in ended.stderr


SERVERS = {
    "up": ["up"],
    "witness": ["witness", "run", "--key", "w.key", "--logs", "logs"],
    "tee": ["tee"],
    "mcp": ["mcp", "--http"],
}


def serves(port: int, *, is_tree: bool) -> bool:
    if is_tree:
        with suppress(httpx.TransportError), httpx.Client(verify=False) as client:  # noqa: S501
            return client.get(f"http://127.0.0.1:{port}/readyz").is_success
        return False
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "redirection"),
    [
        *((name, "<&- >&- 2>&-") for name in ("up", "tee")),
        ("witness", ">/dev/full 2>/dev/full"),
        *(
            pytest.param(name, ">/dev/full 2>/dev/full", marks=pytest.mark.nightly)
            for name in ("up", "mcp")
        ),
    ],
)
def test_a_process_serves_whatever_its_streams_are(ledger, tmp_path, command, redirection):
    ledger.close()
    key = printed("checkpoint", "key", str(tmp_path / "log.key"), "--origin", "a.example", "--json")
    (tmp_path / "logs").write_text(f"log {key['vkey']}\nquorum none\n")
    printed("witness", "key", str(tmp_path / "w.key"), "--name", "witness.example/w", "--json")
    port = free_port()
    words = [*SERVERS[command], *([] if command == "up" else ["--port", str(port)])]
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$0" -m workers "$@" {redirection}', sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "ROTULUS_PORT": str(port), "PYTHONPATH": str(ROOT)},
    )
    try:
        while process.poll() is None and not serves(port, is_tree=command == "up"):
            time.sleep(0.1)
        # It goes on, although nobody could read where it is.
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def test_strangers_do_not_reach_the_terminal(ledger, tmp_path):
    recorder = Recorder(ledger)
    recorder.begin_run({"x": HOSTILE}, run_id=HOSTILE, source_schema={"text": "str"})
    recorder.register_node(HOSTILE, HOSTILE, HOSTILE, "source", {}, determinism="io_read")
    recorder.flush()
    ledger.close()
    for arguments in (
        ["landscape", "runs"],
        ["landscape", "report", HOSTILE],
        ["landscape", "report", HOSTILE, "dag_structure", "--json"],
        ["explain", HOSTILE],
        ["explain", HOSTILE, "--format", "json"],
        ["explain", HOSTILE, "--format", "mermaid"],
        ["show", "session", HOSTILE],
        ["show", HOSTILE],
        [HOSTILE],
        ["--data-dir", str(tmp_path / "data"), "show", "operation", HOSTILE],
    ):
        result = rotulus(*arguments)
        assert "title" in result.output, arguments
        assert not hidden_in(result.output), (arguments, result.output)
        assert "\nforged" not in result.stdout, arguments


def test_an_export_to_a_terminal_is_shown_and_is_json_still(ledger):
    recorder = Recorder(ledger)
    recorder.begin_run({"x": HOSTILE}, run_id=HOSTILE, source_schema={"text": "str"})
    recorder.flush()
    ledger.close()
    ours, theirs = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "workers", "landscape", "export", HOSTILE],
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=50,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert ended.returncode == 0, ended.stderr
    lines = seen.decode().replace("\r\n", "\n")
    assert "title" in lines
    assert not hidden_in(lines)


def test_an_uncaught_error_is_shown_as_all_is(tmp_path):
    program = tmp_path / "p.py"
    program.write_text(
        "from workers.environment.output import prepare_streams\n"
        f"prepare_streams()\nraise ValueError({HOSTILE!r})\n"
    )
    ended = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == 1
    assert "title" in ended.stderr
    assert not hidden_in(ended.stderr)


def test_printed_commands_are_read_by_a_shell_as_they_are_meant(capsys, monkeypatch):
    path = Path("/a folder/it's/$(here)/checkpoint")
    proof = ShownProof("1:a", path, "a+b+c", path, "elimination", verifies=True, verifier_says="")
    print_proof(proof)
    printed_lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    read = [shlex.split(line) for line in printed_lines if line.startswith(("cp ", "rotulus "))]
    assert [words[0] for words in read] == ["cp", "rotulus"]
    assert read[0][1] == str(path)
    assert {str(path), str(path.parent)} < set(read[1])
    monkeypatch.setattr(places, "named_folder", lambda: path.parent)
    line = places.rotulus_command("pipeline", "resume", operands=["a; b"])
    assert shlex.split(line) == [
        "rotulus",
        "--data-dir",
        str(path.parent),
        "pipeline",
        "resume",
        "a; b",
    ]
