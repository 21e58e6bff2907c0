"""Jobs in a test: run by themselves, asked for, drained, failed and waited for, without servers."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from kernel.work.retry_policy import DEFAULT_POLICY
from rotulus import App, JobContext, JobRefused, RetryAfter
from rotulus.testing import DrainEndless, JobRunner, MovedClock, Queues, run_job
from tests.installed_plugins import named_plugin
from tests.kernel.build import findings
from workers.client import GatewayError
from workers.plugins.testing import memory_queues

pytestmark = pytest.mark.anyio

app = App()
begun: list[str] = []


@app.job()
async def thumbnail(image_id: str, width: int = 80) -> dict[str, str]:
    return {"made": f"{image_id}-{width}.png"}


@app.job(context=True)
async def album(job: JobContext[Any], name: str, images: list[str]) -> int:
    for number, image in enumerate(images, 1):
        await thumbnail.enqueue(image_id=image)
        await job.progress(100 * number // len(images), image)
    await job.submit("s-1", [{"intent_kind": "note", "name": name}])
    return len(images)


@app.job(context=True)
def flaky(job: JobContext[Any], name: str, fails: int) -> str:
    begun.append(name)
    if job.attempt <= fails:
        raise ValueError(f"away for the {job.attempt}. time")
    return name


@app.job()
async def refused(name: str) -> None:
    raise JobRefused("damaged")


@app.job()
async def endless(name: str) -> None:
    await endless.enqueue(name=name)


@pytest.fixture
def queues():
    begun.clear()
    with Queues().taking() as queues:
        yield queues
    assert findings(queues.ledger) == ()


async def test_a_job_is_run_by_itself_as_a_worker_runs_it():
    assert await run_job(thumbnail, "i1", width=8) == {"made": "i1-8.png"}
    assert await run_job(flaky, name="n", fails=0) == "n"
    with pytest.raises(ValidationError):
        await run_job(thumbnail, "i1", width="wide")  # type: ignore[arg-type]
    with pytest.raises(JobRefused, match="damaged"):
        await run_job(refused, "n")
    with pytest.raises(ValueError, match="away for the 1"):
        await run_job(flaky, name="n", fails=1)


async def test_what_a_job_says_meanwhile_is_taken_note_of(queues: Queues):
    runner = JobRunner(attempt=3)
    assert await runner.run(album, name="a", images=["i", "j"]) == 2
    assert runner.progress == [(50, "i"), (100, "j")]
    assert runner.submitted == [("s-1", [{"intent_kind": "note", "name": "a"}])]
    assert await runner.run(flaky, name="n", fails=2) == "n"


async def test_what_is_asked_for_is_recorded_and_drained(queues: Queues):
    job = await album.enqueue(name="a", images=["i", "j"])
    queues.assert_not_enqueued(thumbnail)
    drained = await queues.drain()
    assert len(drained.completed) == 3
    assert (await job.result()).result == 2
    assert queues.assert_enqueued(thumbnail, image_id="i").arguments["width"] == 80
    assert len(queues.enqueued(thumbnail)) == 2
    assert (await job.status()).state == "completed"


async def test_an_assertion_that_fails_says_what_was_asked_for(queues: Queues):
    with pytest.raises(AssertionError, match="no thumbnail"):
        queues.assert_enqueued(thumbnail)
    await thumbnail.enqueue(image_id="i", width=1)
    with pytest.raises(AssertionError, match=r"asked for as .*'width': 1.*0 times"):
        queues.assert_enqueued(thumbnail, width=2)
    with pytest.raises(AssertionError, match="thumbnail was asked for"):
        queues.assert_not_enqueued(thumbnail, width=1)


async def test_a_job_that_waits_is_due_when_the_clock_is_moved(queues: Queues):
    job = await thumbnail.options(delay_s=60, key="k").enqueue(image_id="i")
    again = await thumbnail.options(delay_s=60, key="k").enqueue(image_id="i")
    assert [each.is_duplicate for each in queues.enqueued(thumbnail)] == [False, True]
    assert (again.is_duplicate, again.request_id) == (True, job.request_id)
    assert (await queues.drain()).completed == []
    with pytest.raises(TimeoutError, match="thumbnail is due at 2026-01-01T12:01"):
        await job.result()
    queues.clock.advance(minutes=1)
    assert (await queues.drain()).completed == [job.request_id]


async def test_a_job_that_fails_is_tried_again_and_says_why_meanwhile(queues: Queues):
    job = await flaky.enqueue(name="n", fails=2)
    drained = await queues.drain()
    assert [str(each) for each in drained.failures] == [
        "attempt 1 of flaky: ValueError: away for the 1. time"
    ]
    with pytest.raises(TimeoutError, match="attempt 1 of flaky: ValueError"):
        await job.result()
    assert await job.waiting() is not None
    await queues.drain(until_empty=True)
    assert (await job.result()).result == "n"
    assert [each.attempt for each in queues.failures] == [1, 2]
    assert begun == ["n"] * 3


async def test_a_job_is_given_up_after_its_attempts_or_at_once_where_it_is_refused(queues: Queues):
    bad = await flaky.enqueue(name="n", fails=99)
    damaged = await refused.enqueue(name="n")
    drained = await queues.drain(until_empty=True)
    assert drained.dead_letters == [damaged.request_id, bad.request_id]
    assert len(drained.failures) == DEFAULT_POLICY.attempts + 1
    assert (await bad.result()).reason == "handler_failed: ValueError"
    assert (await damaged.result()).reason == "damaged"


async def test_a_queue_that_does_not_become_empty_ends_with_the_job_that_goes_on(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory_queues, "RUNS_MAX", 20)
    await endless.enqueue(name="ever")
    with pytest.raises(DrainEndless, match=r"endless is due again with .*'name': 'ever'"):
        await queues.drain()


async def test_a_job_that_snoozes_for_ever_ends_the_drain(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory_queues, "RUNS_MAX", 20)

    @App().job("snoozing")
    async def snoozing(name: str) -> None:
        raise RetryAfter(60)

    await snoozing.enqueue(name="ever")
    assert (await queues.drain()).failures == [], "a snooze is no failure"
    before = queues.clock.now
    with pytest.raises(DrainEndless, match="snoozing is due again"):
        await queues.drain(until_empty=True)
    assert queues.clock.now - before >= timedelta(minutes=20)


async def test_a_job_that_is_taken_back_is_not_called(queues: Queues):
    job = await flaky.enqueue(name="n", fails=0)
    assert await job.cancel("not needed")
    assert not await job.cancel("not needed")
    await queues.drain()
    assert begun == []
    assert (await job.result()).state == "cancelled"


async def test_tags_are_kept_with_the_request(queues: Queues):
    await thumbnail.options(tags={"customer": "acme"}).enqueue(image_id="i")
    assert queues.assert_enqueued(thumbnail).tags == {"customer": "acme"}


async def test_what_a_gateway_refuses_is_refused(queues: Queues):
    with pytest.raises(GatewayError) as error:
        await thumbnail.options(priority="soon").enqueue(image_id="i")
    assert error.value.code == "work_request_invalid"
    with pytest.raises(GatewayError):
        await thumbnail.options(key="").enqueue(image_id="i")


def test_a_clock_stands_until_it_is_moved():
    clock = MovedClock()
    before = clock.now
    assert clock.now == before
    clock.advance(1.5)
    clock.advance(hours=1, days=1)
    assert clock.now - before == timedelta(days=1, hours=1, seconds=1.5)


def test_the_readmes_own_job_is_tested_in_ten_lines(tmp_path, readme_files, readmes_test):
    assert len([line for line in readmes_test.splitlines() if line]) <= 10
    (tmp_path / "jobs.py").write_text(readme_files["jobs.py"])
    (tmp_path / "test_jobs.py").write_text(readmes_test)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nanyio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-q", *named_plugin()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
