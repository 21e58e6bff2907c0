"""A plug-in from outside the tree: its queue is drained through a killed worker, and judged."""

import json
import os
import re
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from kernel.work.queue_kinds import QUEUE_KINDS
from tests.installed_plugins import (
    ROOT,
    install_client,
    install_example,
    install_programs,
    producers,
    programs,
)
from tests.ports import free_port
from tests.system.essence import outcomes_for_each_request, reading
from tests.system.tree_run import TreeRun, running
from tests.workers.api.door import ONTOLOGY
from tests.workers.api.test_bindings import MEANING, brought
from workers.client import ExtractionTask, Job, NewRequest, Rotulus
from workers.client.errors import GatewayError
from workers.environment.ledger_verification import verify_file

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]

LETTERS = 12
WAIT_S = 60
PROGRAM_LINES_MAX = 30
BULK = 300
"""Jobs of the program that asks for many."""

HYPOTHESES = ["a", "b"]
READ = [
    ("stamp", "mail_room.stamp@1", "2026-01-31", 0.75),
    ("letter", "model:addressee-1", "Ann Acme", 0.5),
]
"""By kind of contents: who reads it, which words, and the authority of the claim."""


def letter(name: str, text: str = "dear reader", takes_s: float = 0.0) -> dict[str, object]:
    return {"letter_id": name, "text": text, "takes_s": takes_s}


async def until_in_hand(rotulus: Rotulus, job: Job) -> None:
    path = f"/v1/queues/{job.queue}/requests/{job.request_id}/progress"
    while (await rotulus.gateway.ask("GET", path)).json()["percent"] is None:
        await anyio.sleep(0.05)


async def use(run: TreeRun, url: str, installed: Path) -> None:
    async with Rotulus(url) as rotulus:
        with pytest.raises(GatewayError) as refused:
            await rotulus.enqueue({"letter_id": "x", "text": 7}, queue="letters")
        assert (refused.value.code, refused.value.field) == ("work_request_invalid", "content.text")
        wanted = [
            NewRequest(letter(f"letter-{n}", takes_s=0.3), queue="letters", key=f"key-{n}")
            for n in range(LETTERS)
        ]
        jobs = await rotulus.enqueue_many(wanted)
        await until_in_hand(rotulus, jobs[0])
        run.kill("worker")
        outcomes = [await job.result(timeout=WAIT_S) for job in jobs]
        assert {outcome.state for outcome in outcomes} == {"completed"}
        named = [outcome.result and outcome.result["letter_id"] for outcome in outcomes]
        assert named == [f"letter-{n}" for n in range(LETTERS)]
        assert all((installed / f"letter-{n}.txt").exists() for n in range(LETTERS))
        bad = await rotulus.enqueue(letter("bad", "unreadable"), queue="letters")
        given_up = await bad.result(timeout=WAIT_S)
        assert (given_up.state, given_up.reason) == ("dead_letter", "unreadable")
        long = await rotulus.enqueue(letter("long", takes_s=30), queue="letters")
        await until_in_hand(rotulus, long)
        await long.cancel("no longer wanted")
        after = await rotulus.enqueue(letter("after"), queue="letters")
        assert (await after.result(timeout=WAIT_S)).state == "completed"
        assert not (installed / "long.txt").exists()
        await use_programs(run, rotulus)
        await use_extractors(run, rotulus)


async def use_producers(run: TreeRun, environment: dict[str, str]) -> None:
    """The programs of the READMEs that ask for work, with a worker that is killed in the middle."""
    waiting, bulk = producers()
    done = await anyio.run_process([sys.executable, "-c", waiting], env=environment)
    assert done.stdout == b"completed\n"
    async with await anyio.open_process(
        [sys.executable, "-c", bulk], env=environment, stderr=None
    ) as process:
        assert process.stdout is not None
        text, killed_at = b"", 0
        async for chunk in process.stdout:
            text += chunk
            if not killed_at and (killed_at := text.count(b"\n")):
                run.kill("worker")
    assert 0 < killed_at < BULK, "in the middle"
    assert sorted(text.decode().splitlines()) == sorted(f"bulk:{n} completed" for n in range(BULK))


async def use_programs(run: TreeRun, rotulus: Rotulus) -> None:
    """The queue and the evaluator of the client's README; a worker is killed under the first."""
    images = [{"image_id": f"i{number}", "width": 80} for number in range(LETTERS)]
    jobs = await rotulus.enqueue_many([NewRequest(x, queue="resize-images") for x in images])
    await until_in_hand(rotulus, jobs[0])
    run.kill("worker")
    assert [(await job.result(timeout=WAIT_S)).result for job in jobs] == images
    await rotulus.bindings.create("verdicts", MEANING)
    session = str(UUID(int=7))
    body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
    await rotulus.gateway.ask("POST", "/v1/sessions", json=body)
    metadata = {"date_entered": "2026-01-31"}
    text = {"text": "VERDICT: remanded", "metadata": metadata, "source_kind": "docket"}
    intents = {"intents": [brought("a1") | text]}
    answer = await rotulus.gateway.ask("POST", f"/v1/sessions/{session}/operations", json=intents)
    assert answer.json()["results"][0]["validation_result"] == "accepted"
    while not (said := dispositions(run.ledger_path)):
        await anyio.sleep(0.1)
    assert said == ["remanded"]


async def use_extractors(run: TreeRun, rotulus: Rotulus) -> None:
    """The extractor of the example reads what is of its kind, its model a letter."""
    texts = {"stamp": "POSTED 2026-01-31", "letter": "Dear Ann Acme, you owe $350."}
    session = str(UUID(int=7))
    intents = [brought(kind) | {"content_kind": kind, "text": text} for kind, text in texts.items()]
    path = f"/v1/sessions/{session}/operations"
    answer = await rotulus.gateway.ask("POST", path, json={"intents": intents})
    assert [x["validation_result"] for x in answer.json()["results"]] == ["accepted"] * 2
    tasks = {
        kind: ExtractionTask(extraction_run_id=f"run-{kind}", source_ref=kind, corpus_id="corpus")
        for kind in texts
    }
    for kind, by, words, authority in READ:
        ended = await (await rotulus.enqueue(tasks[kind])).result(timeout=WAIT_S)
        assert ended.state == "completed"
        shown = await rotulus.records.extraction(f"run-{kind}")
        assert (shown["state"], shown["extractor"]) == ("succeeded", by)
        [value] = shown["values"]
        claim = await rotulus.records.node(value["claim_ref"])
        read = claim["payload"]
        assert (value["words"], read["authority"]) == (words, authority)
        assert words in read["text"]


def dispositions(ledger_path: Path) -> list[str]:
    """What courts were observed to decide."""
    with reading(ledger_path) as ledger:
        rows = ledger.execute("SELECT record FROM court_disposition_observations")
        return [json.loads(record)["payload"]["disposition"] for (record,) in rows]


def test_programs_of_the_readmes_are_short():
    assert [module for module, _, _ in programs()] == ["resizing", "verdicts"]
    texts = [*producers(), *(program for _, program, _ in programs())]
    assert len(texts) == 4
    assert max(len(text.splitlines()) for text in texts) <= PROGRAM_LINES_MAX


async def test_the_readmes_job_is_served_and_asked_for_as_its_lines_say(tmp_path: Path):
    text = (ROOT / "README.md").read_text()
    files = re.findall(r"```python\n(# (\w+\.py)\n.*?)```", text, re.DOTALL)
    assert [name for _, name in files] == ["jobs.py", "ask.py"]
    for program, name in files:
        (tmp_path / name).write_text(program)
    [lines] = re.findall(r"```sh\n(rotulus dev .*?)```", text, re.DOTALL)
    serve, ask = (shlex.split(line, comments=True) for line in lines.splitlines())
    assert (serve[0], ask[0]) == ("rotulus", "python")
    # A port of the test's own instead of 8440, on which somebody may work.
    port = free_port()
    serve = [sys.executable, "-m", *serve, "--port", str(port)]
    env = {**os.environ, "ROTULUS_GATEWAY_URL": f"http://127.0.0.1:{port}"}
    async with await anyio.open_process(serve, cwd=tmp_path, stderr=None) as dev:
        assert dev.stdout is not None
        said = b""
        while b"serves thumbnail" not in said:
            said += await dev.stdout.receive()
        answer = await anyio.run_process(
            [sys.executable, *ask[1:]], cwd=tmp_path, env=env, check=False
        )
        dev.send_signal(signal.SIGINT)
    assert answer.returncode == 0, answer.stderr.decode()
    assert answer.stdout.decode() == "{'made': 'i1-80.png'}\n"
    assert "thumbnail" not in QUEUE_KINDS


async def until_refused(rotulus: Rotulus, content: dict[str, object]) -> GatewayError:
    """Return what a gateway that knows the queue says of a content that does not fit."""
    with anyio.fail_after(WAIT_S):
        while True:
            try:
                await rotulus.enqueue(content, queue="thumbnail")
            except GatewayError as error:
                if error.code != "work_queue_unknown":
                    return error
            await anyio.sleep(0.1)


async def test_a_queue_that_a_worker_registered_is_known_after_its_gateway_was_killed(
    tmp_path: Path,
):
    """The gateway has none of the module."""
    (tmp_path / "jobs_of_a_worker.py").write_text(
        "from rotulus import App\n\napp = App()\n\n\n@app.job()\n"
        "async def thumbnail(image_id: str, width: int) -> str:\n    return image_id\n"
    )
    env = {"PYTHONPATH": str(tmp_path)}
    wrong = {"image_id": "i", "width": "wide"}
    with running(tmp_path / "data", "up", "--app", "jobs_of_a_worker:app", env=env) as run:
        url = (await anyio.to_thread.run_sync(run.wait_until_up))["gateway_url"]
        async with Rotulus(url) as rotulus:
            assert (await until_refused(rotulus, wrong)).field == "content.width"
            run.kill("gateway")
            assert (await until_refused(rotulus, wrong)).field == "content.width"
            job = await rotulus.enqueue({"image_id": "i", "width": 8}, queue="thumbnail")
            assert (await job.result(timeout=WAIT_S)).result == {"result": "i"}
    quiet = partial(verify_file, run.ledger_path, lambda _done, _total: None)
    assert (await anyio.to_thread.run_sync(quiet)).findings == ()


@pytest.mark.spec("K19", "§14.3")
async def test_a_queue_of_a_plugin_is_drained_through_a_killed_worker(tmp_path: Path):
    installed = await anyio.to_thread.run_sync(install_example, tmp_path)
    folders = [installed, *install_programs(tmp_path)]
    env = {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "ROTULUS_MODEL_NAME": "addressee",
    }
    with running(tmp_path / "data", "up", env=env) as run:
        url = (await anyio.to_thread.run_sync(run.wait_until_up))["gateway_url"]
        await use(run, url, installed)
        client = install_client(tmp_path / "client")
        environment = {"ROTULUS_GATEWAY_URL": url, "PYTHONPATH": str(client), "PATH": ""}
        await use_producers(run, environment)
    assert outcomes_for_each_request(run.ledger_path) <= {0, 1}
    # Whoever lacks the plug-in verifies what was recorded, the results of handlers included.
    assert "letters" not in QUEUE_KINDS
    quiet = partial(verify_file, run.ledger_path, lambda _done, _total: None)
    assert (await anyio.to_thread.run_sync(quiet)).findings == ()
    assert [*installed.glob("digest-*.txt")], "its schedule asked too"
