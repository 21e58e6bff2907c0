"""A function in a user's own file is a job: its parameters are the content, its call the work."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ValidationError

from kernel.values.foreign_code import cause_of, traceback_of
from kernel.work import queue_kinds
from kernel.work.queue_kinds import QUEUE_KINDS
from tests.foreign_ends import ENDS, nobody_at_the_keyboard
from tests.workers.client.scripted_gateway import ScriptedGateway, refusal, taken
from workers.environment.entry_points import PluginError
from workers.environment.foreign_calls import await_foreign
from workers.environment.foreign_threads import ForeignCodeHangs
from workers.environment.settings import SettingsError, load_settings
from workers.plugins import App, AppJob, JobContext, JobRefused, RetryAfter, job_app
from workers.plugins.installed import queue_plugins
from workers.plugins.process_errors import ErrorOfProcess

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]

app = App()


class Size(BaseModel):
    width: int
    height: int = 1


@app.job()
async def make_thumbnail(image_id: str, size: Size, *, quality: int = 80) -> dict[str, Any]:
    return {"made": f"{image_id}-{size.width}-{quality}"}


@app.job("sums", limit_s=5, concurrency=2)
def add(left: int, right: int = 2) -> int:
    return left + right


@app.job(context=True, item="album")
def of_thread(job: JobContext[Any], image: str, album: str) -> dict[str, str]:
    return {"by": threading.current_thread().name, "id": job.request_id, "in": f"{album}/{image}"}


@app.job("digits", run_in="process", limit_s=30)
def digits_of(text: str, seconds: float = 0) -> dict[str, Any]:
    if not text:
        raise ValueError("no text")
    time.sleep(seconds)
    return {"pid": os.getpid(), "digits": sum(each.isdigit() for each in text)}


class TakesTwo(Exception):
    def __init__(self, first: str, second: object) -> None:
        super().__init__(f"{first} and no more")
        self.held = second


RAISED: dict[str, Callable[[], BaseException]] = {
    "an error": lambda: KeyError("nobody"),
    "arguments of its own": lambda: TakesTwo("one", 2),
    "no pickle": lambda: TakesTwo("one", lambda: 2),
    "an exit": lambda: SystemExit(3),
    "a cancellation": asyncio.CancelledError,
    "a pause": lambda: RetryAfter(2),
    "a refusal": lambda: JobRefused("damaged"),
}


@app.job("raising", run_in="process", limit_s=30)
def raise_as(name: str) -> None:
    make = RAISED[name]
    raise make()


def context_of(content: BaseModel) -> JobContext[Any]:
    async def nothing(*_: Any) -> Any:
        return None

    return JobContext("r-1", content, 1, anyio.current_time() + 9, nullcontext, nothing, nothing)  # type: ignore[arg-type]


async def handled(job: AppJob[..., Any, Any], **arguments: Any) -> Any:
    """What the queue's handler returns for a content that a gateway took."""
    return await job.plugin.handler(context_of(job.plugin.content.model_validate(arguments)))


async def test_the_parameters_are_the_content_and_the_functions_types_hold():
    made = await handled(make_thumbnail, image_id="i1", size={"width": 80})
    assert made == {"made": "i1-80-80"}
    assert make_thumbnail.plugin.name == "make-thumbnail"
    for wrong in (
        {"size": {"width": 1}},
        {"image_id": "i", "size": {"width": "x"}},
        {"image_id": "i", "size": {"width": 1}, "colour": "red"},
    ):
        with pytest.raises(ValidationError):
            make_thumbnail.plugin.content.model_validate(wrong)


async def test_a_call_is_the_functions_own():
    assert add(1) == 3
    assert (await make_thumbnail("i2", Size(width=3), quality=1))["made"] == "i2-3-1"


async def test_a_plain_function_is_called_on_a_thread_and_may_have_the_job_first():
    result = await handled(of_thread, image="i", album="a")
    assert (result["id"], result["in"]) == ("r-1", "a/i")
    assert result["by"] != threading.current_thread().name


async def test_a_result_that_is_no_mapping_is_put_into_one():
    assert await handled(add, left=2) == {"result": 4}


@pytest.mark.may_block
async def test_a_plain_function_may_be_called_in_a_process_which_ends_at_the_deadline():
    result = await handled(digits_of, text="a1b2")
    assert result["digits"] == 2
    assert result["pid"] != os.getpid()
    with pytest.raises(ValueError, match="no text"):
        await handled(digits_of, text="")
    with anyio.move_on_after(0.2) as scope:
        await handled(digits_of, text="1", seconds=60)
    assert scope.cancelled_caught
    again = await handled(digits_of, text="1")
    assert again["pid"] != result["pid"], "the process that computed in vain was ended"


@pytest.mark.may_block
async def test_what_a_process_raises_is_raised_where_its_job_is_with_its_traceback():
    for name, make in RAISED.items():
        raised = make()
        with pytest.raises(Exception) as caught:  # noqa: PT011
            await await_foreign(name, partial(handled, raise_as, name=name))
        error, keeps_class = cause_of(caught.value), not isinstance(raised, TakesTwo)
        assert type(error) is (type(raised) if keeps_class else ErrorOfProcess), name
        assert str(raised) in str(error), name
        assert "in raise_as" in traceback_of(caught.value), name
        assert getattr(error, "pause_ms", None) == getattr(raised, "pause_ms", None)
        assert getattr(error, "reason", None) == getattr(raised, "reason", None)


def test_what_cannot_cross_to_a_process_is_refused():
    async def coroutine(name: str) -> None: ...

    def nested(name: str) -> None: ...

    with pytest.raises(TypeError, match="event loop"):
        App().job(run_in="process")(coroutine)
    with pytest.raises(TypeError, match="no function of a module"):
        App().job(run_in="process")(nested)
    with pytest.raises(TypeError, match="context"):
        App().job(context=True, run_in="process")(digits_of.function)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ENDS)
async def test_however_a_plain_function_ends_is_an_exception_of_the_job(name):
    end = ENDS[name]

    def ends() -> None:
        end()

    job = App().job()(ends)
    with nobody_at_the_keyboard(), pytest.raises(Exception) as raised:  # noqa: PT011 - any is a failed attempt
        await handled(job)
    assert isinstance(raised.value, Exception)


async def test_a_plain_function_that_does_not_return_is_left_behind_in_time(monkeypatch):
    go_on = threading.Event()
    job = App().job("hangs")(lambda: go_on.wait(30))
    monkeypatch.setattr(JobContext, "remaining_s", lambda _: 0.05)
    with pytest.raises(ForeignCodeHangs):
        await handled(job)
    go_on.set()


def test_jobs_belong_to_a_text_or_to_all_of_their_arguments():
    assert make_thumbnail.plugin.item_key == "image_id"
    assert of_thread.plugin.item_key == "album"
    content = add.plugin.content
    names = [getattr(content(left=n), add.plugin.item_key) for n in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


async def test_arguments_are_looked_at_before_anything_is_asked(monkeypatch):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://127.0.0.1:1")
    with pytest.raises(TypeError, match="left"):
        await add.enqueue(right=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected"):
        await add.options(delay_s=1).enqueue(1, middle=3)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        await add.enqueue("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"queue": "sums"}, "two jobs are called 'sums'"),
        ({"queue": "late", "limit_s": 1e9}, "limit_s"),
        ({"queue": "odd", "item": "n"}, "no parameter 'n' is a text"),
    ],
)
def test_what_no_queue_may_be_is_refused_where_it_is_declared(options, problem):
    with pytest.raises(ValueError, match=problem):
        app.job(**options)(lambda: None)
    assert len(app.plugins) == 5


def test_a_parameter_without_a_type_is_refused():
    def loose(image, *sizes: int): ...

    with pytest.raises(TypeError, match="no parameter with a name and an annotation"):
        App().job()(loose)


PROGRAM = """
from rotulus import App

app = App()


@app.job("parcels-of-an-app")
async def parcel(parcel_id: str) -> None: ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    queue_plugins.cache_clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_parcels.py").write_text(PROGRAM)
    yield "own_parcels"
    queue_plugins.cache_clear()
    queue_kinds._kinds.pop("parcels-of-an-app", None)  # noqa: SLF001 - rows stay otherwise


def test_an_app_of_the_current_folder_adds_its_queues(module, monkeypatch):
    monkeypatch.setenv("ROTULUS_APP", f"{module}:app")
    assert "parcels-of-an-app" in queue_plugins(load_settings().app)
    assert QUEUE_KINDS["parcels-of-an-app"].item_key == "parcel_id"


def test_a_folder_of_the_user_takes_no_package_of_ours_away(module):
    folder = Path("queues", "redis")
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder.parent / "__init__.py").write_text("")
    queue_plugins(f"{module}:app")
    command = (
        "from workers.environment.entry_points import import_from_current_folder as do; do();"
        "import queues.redis.keys, own_parcels"
    )
    # `-P`: as the installed command, which has not its user's folder before what is installed.
    path = os.pathsep.join(filter(None, map(str, (ROOT, os.environ.get("PYTHONPATH")))))
    subprocess.run(
        [sys.executable, "-P", "-c", command], check=True, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("own_parcels:nothing", "does not load"),
        ("no_such_module_here:app", "does not load"),
        ("own_parcels:App", "no App"),
    ],
)
def test_an_app_that_cannot_be_used_is_named(module, place, problem):
    with pytest.raises(PluginError, match=f"ROTULUS_APP={place}: .*{problem}") as refused:
        queue_plugins(place)
    assert refused.value.code == "plugin_invalid"


@pytest.mark.parametrize("place", ["jobs.py", "jobs", "jobs:", ":app", "a b:c", "jobs:app()"])
def test_a_place_is_a_module_and_a_name(monkeypatch, place):
    monkeypatch.setenv("ROTULUS_APP", place)
    with pytest.raises(SettingsError, match="ROTULUS_APP"):
        load_settings()


async def test_a_job_that_no_worker_serves_yet_is_waited_for_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(job_app, "LOOK_S", 0.0)
    early = refusal(404, "work_queue_unknown")
    gateway = ScriptedGateway(early, early, taken)
    async with gateway.client() as client:
        monkeypatch.setattr(job_app, "CLIENT", RunVarOf(client))
        job = await add.options(key="k").enqueue(left=1)
        assert job.request_id == "request:k"
    [warning] = caplog.records
    assert warning.getMessage().startswith("no worker serves sums yet, waiting for one for 30 s; ")


class RunVarOf:
    """Has one value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self, _: None) -> Any:
        return self._value
