"""A caller of jobs is checked by mypy: the arguments of a job are those of its function."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]

CALLER = """
from typing import Any

from pydantic import BaseModel

from rotulus import App, AppJob, JobContext
from rotulus.testing import Queues, run_job
from rotulus_client import BlockingRotulus, Job, Rotulus

app = App()


@app.job()
async def resize(image_id: str, width: int, *, height: int = 1) -> dict[str, str]:
    return {"made": f"{image_id}-{width}x{height}"}


@app.job("sums", limit_s=5, concurrency=2)
def add(left: int, right: int = 2) -> int:
    return left + right


@app.job(context=True)
async def album(job: JobContext, name: str) -> None:
    await job.progress(50, name)


class Size(BaseModel):
    width: int


@app.job()
async def measured(image_id: str) -> Size:
    return Size(width=len(image_id))


@app.job(run_in="process")
def hashed(text: str) -> int:
    return hash(text)


async def handle_of(job: AppJob[[str], Any, Size]) -> Job[Size]:
    return await job.enqueue("i")


async def right() -> None:
    await handle_of(measured)
    job = await resize.enqueue("i1", width=80, height=2)
    await resize.options(key="k", delay_s=5).enqueue(image_id="i1", width=80)
    await album.enqueue(name="a")
    result: dict[str, str] | None = (await job.result(timeout=3)).result
    value: dict[str, str] = await job.value()
    width: int = (await (await measured.enqueue("i1")).value()).width
    await (await album.enqueue(name="a")).value()
    [sums] = await add.enqueue_many([{"left": 1}])
    added: int = await sums.value() + await run_job(add, 1)
    async with Rotulus() as rotulus:
        size: Size = await (await rotulus.enqueue(measured.request("i1"))).value()
        raw = await rotulus.enqueue({"image_id": "i1"}, queue="measured")
        words: int = len((await raw.value())["width"])
    with BlockingRotulus() as blocking:
        size = blocking.enqueue(measured.request("i1")).value()
        total_of_thread: int = blocking.enqueue(add.request(1)).value()
    print(value, width, added, size, words, total_of_thread)
    made: dict[str, str] = await resize("i1", 3)
    total: int = add(1)
    await run_job(resize, image_id="i1", width=80)
    with Queues().taking() as queues:
        queues.assert_enqueued(add)
    print(result, made, total)


async def wrong() -> None:
    await resize.enqueue(image_id=1, width=80)  # wrong: arg-type
    await resize.enqueue("i1")  # wrong: call-arg
    await resize.enqueue("i1", 80, 3)  # wrong: call-arg
    await resize.enqueue("i1", 80, colour="red")  # wrong: call-arg
    await resize.options(soon=True).enqueue("i1", 80)  # wrong: call-arg
    await resize.options(delay_s="5").enqueue("i1", 80)  # wrong: typeddict-item|arg-type
    await album.enqueue(object(), "a")  # wrong: call-arg
    await album.enqueue(name=3)  # wrong: arg-type
    total: str = add(1)  # wrong: assignment
    sums = await add.enqueue(1)
    text: str = await sums.value()  # wrong: assignment
    print((await sums.result()).result.real)  # wrong: union-attr
    (await (await measured.enqueue("i")).value()).height  # wrong: attr-defined
    with BlockingRotulus() as blocking:
        text = blocking.enqueue(add.request(1)).value()  # wrong: assignment
    await Rotulus().enqueue(add.request("x"))  # wrong: arg-type
    await Rotulus().enqueue(add.request(1), key="k")  # wrong: call-overload
    print(text)
    await run_job(resize, image_id="i1", width="wide")  # wrong: arg-type
    print(total)


@app.job(context=True)
async def no_context(name: str) -> None: ...  # wrong: arg-type


@app.job(concurrency="two")  # wrong: call-overload
async def odd(name: str) -> None: ...
"""


def test_right_arguments_pass_and_wrong_ones_are_named(tmp_path: Path):
    file = tmp_path / "caller_of_jobs.py"
    file.write_text(CALLER)
    command = [sys.executable, "-m", "mypy", "--show-error-codes", "--no-pretty", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = CALLER.split("\n")
    wrong = {
        number: line.partition("# wrong: ")[2].split("|")
        for number, line in enumerate(lines, 1)
        if "# wrong: " in line
    }
    said: dict[int, str] = {}
    for number, code in re.findall(r"caller_of_jobs\.py:(\d+): error: .*\[([\w-]+)\]", done.stdout):
        said.setdefault(int(number), code)
    # A decorated function is blamed at its decorator or its own line.
    near = {n: next((n + step for step in (0, -1) if n + step in said), None) for n in wrong}
    assert {n for n, at in near.items() if at is None} == set(), done.stdout
    assert set(said) == set(near.values()), done.stdout
    for number, at in near.items():
        assert at is not None
        assert said[at] in wrong[number], (lines[number - 1], said[at])
