"""What is installed is found by name, and a plug-in that cannot be used is named."""

import sys
from pathlib import Path

import pytest

from actors.errors import ModelError
from actors.synthesis.model_client import ModelCall, ModelParameters
from kernel.values.priorities import QueuePriority
from kernel.work import queue_kinds
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.queue.priorities import priorities_of
from tests.foreign_ends import ASYNC_ENDS, ENDS, nobody_at_the_keyboard
from tests.installed_plugins import install_program
from workers.environment.entry_points import QUEUES, PluginError, plugins_of
from workers.environment.settings import SettingsError, load_settings
from workers.models.configured_model import close_model, model_of
from workers.models.openai_model import HttpModel
from workers.plugins.installed import (
    extractor_plugins,
    model_plugin,
    particulars_readers,
    queue_plugins,
)
from workers.plugins.plugin_model import PluginModel

PROGRAM = """
from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer
from pydantic import BaseModel
from kernel.values.priorities import QueuePriority
from workers.plugins import QueuePlugin

class Parcel(BaseModel):
    parcel_id: str

async def handle(job):
    return None

PARCELS = QueuePlugin(name="parcels", content=Parcel, item_key="parcel_id", handler=handle)
NO_FIELD = QueuePlugin(name="parcels", content=Parcel, item_key="weight", handler=handle)
ODD = QueuePlugin(
    name="parcels", content=Parcel, item_key="parcel_id", handler=handle,
    priorities=(QueuePriority("background", "critical", 5),),
)
LONG = QueuePlugin(
    name="parcels", content=Parcel, item_key="parcel_id", handler=handle, limit_s=1e9,
)

class Reader:
    content_kinds = ("ecf_entry_text",)
    def extract(self, source): ...

class SaysNothing:
    async def complete(self, call): ...

class Breaks(SaysNothing):
    def __init__(self):
        raise OSError("no weights")

class Echo:
    external = True
    closed = False
    async def complete(self, call):
        return ModelAnswer(call.prompt, "echo-1", "echo")
    async def aclose(self):
        Echo.closed = True

class Odd:
    external = False
    async def complete(self, call):
        if call.prompt == "error":
            raise RuntimeError("secret")
        if call.prompt == "refused":
            raise ModelError("model_refused", "not this one")
        return {
            "text": "secret",
            "version": ModelAnswer("x", "", "odd"),
            "usage": ModelAnswer("x", "odd-1", "odd", {"tokens": -1}),
            "no mapping": ModelAnswer("x", "odd-1", "odd", 7),
        }[call.prompt]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a module with entry points for the time of a test."""
    queue_plugins.cache_clear()

    def installed(module: str, **entries: str) -> None:
        by_group = {f"rotulus.{group}": entry for group, entry in entries.items()}
        folder = install_program(tmp_path / module, module, PROGRAM, by_group)
        monkeypatch.syspath_prepend(str(folder))

    yield installed
    queue_plugins.cache_clear()
    queue_kinds._kinds.pop("parcels", None)  # noqa: SLF001 - rows stay otherwise
    for name in [name for name in sys.modules if name.startswith("plugged_")]:
        del sys.modules[name]


def test_a_queue_of_a_plugin_is_a_row_of_the_table(install):
    install("plugged_1", queues="parcels = plugged_1:PARCELS")
    assert queue_plugins()["parcels"].kind is not None
    assert QUEUE_KINDS["parcels"].item_key == "parcel_id"
    assert priorities_of("parcels")[0].name == "critical"
    assert queue_plugins() is queue_plugins(), "a row is added once"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("parcels = plugged_2:NOTHING", "does not load"),
        ("parcels = plugged_none:PARCELS", "does not load"),
        ("parcels = plugged_2:Parcel", "no QueuePlugin"),
        ("letters = plugged_2:PARCELS", "its queue is called 'parcels'"),
        ("parcels = plugged_2:NO_FIELD", "Parcel has no field 'weight'"),
        ("parcels = plugged_2:ODD", "the priority 'background' draws as 'background'"),
        ("parcels = plugged_2:LONG", "limit_s"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_and_adds_nothing(install, entry, problem):
    install("plugged_2", queues=entry)
    before = dict(QUEUE_KINDS)
    with pytest.raises(PluginError, match=r"plugged_2 1\.0\.0") as refused:
        queue_plugins()
    assert problem in str(refused.value)
    assert entry in str(refused.value)
    assert refused.value.code == "plugin_invalid"
    assert dict(QUEUE_KINDS) == before


def test_two_that_claim_one_name_are_both_named(install):
    install("plugged_3", queues="parcels = plugged_3:PARCELS")
    install("plugged_4", queues="parcels = plugged_4:PARCELS")
    with pytest.raises(
        PluginError, match=r"plugged_3 1.0.0(.|\n)*plugged_4|plugged_4(.|\n)*plugged_3"
    ):
        plugins_of(QUEUES)


def test_no_plugin_takes_the_name_of_a_queue_that_is_there(install):
    install("plugged_5", queues="binding-evaluation = plugged_5:PARCELS")
    with pytest.raises(PluginError, match="parcels"):
        queue_plugins()
    kind = QUEUE_KINDS["binding-evaluation"]
    with pytest.raises(ValueError, match="already"):
        queue_kinds.register_queue(kind)
    assert QueuePriority("critical", "critical", 5) in kind.priorities


def test_an_evaluator_is_called_as_a_target_kind_and_an_extractor_as_none_that_is_there(install):
    install(
        "plugged_6",
        binding_evaluators="weather = plugged_6:Reader",
        extractors="r = plugged_6:Reader",
    )
    with pytest.raises(PluginError, match="no target kind"):
        particulars_readers()
    with pytest.raises(PluginError, match="part of Rotulus"):
        extractor_plugins({"r"}, {})
    with pytest.raises(PluginError, match="'ecf_entry_text' are served by 'rules'"):
        extractor_plugins({}, {"ecf_entry_text": "rules"})
    assert [*extractor_plugins({}, {})] == ["r"]


def test_a_setting_may_name_the_queue_of_a_plugin_which_is_not_imported(install, monkeypatch):
    monkeypatch.setenv("ROTULUS_WORKER_QUEUES", "parcels")
    with pytest.raises(SettingsError):
        load_settings()
    install("plugged_7", queues="parcels = plugged_7:PARCELS")
    assert load_settings().queue_names == ("parcels",)
    assert "plugged_7" not in sys.modules


def test_a_setting_names_the_model_of_a_plugin_which_is_not_imported(install, monkeypatch):
    monkeypatch.setenv("ROTULUS_MODEL_NAME", "echo")
    install("plugged_8", models="other = plugged_8:Echo")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    [(variable, code, problem)] = refused.value.problems
    assert (variable, code) == ("ROTULUS_MODEL_NAME", "model_unknown")
    assert "offered: other" in problem
    install("plugged_9", models="echo = plugged_9:Echo")
    assert load_settings().model_name == "echo"
    assert "plugged_9" not in sys.modules
    elsewhere = load_settings(model_url="http://127.0.0.1:9/v1/", model_name="anything")
    assert isinstance(model_of(elsewhere), HttpModel), "a URL wins, and knows its own names"


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("Nothing", "does not load"),
        ("Reader", "has no method 'complete'"),
        ("SaysNothing", "whether prompts leave this machine"),
        ("Breaks", "cannot be made"),
    ],
)
def test_a_model_that_cannot_be_used_is_named(install, model, problem):
    install("plugged_10", models=f"echo = plugged_10:{model}")
    with pytest.raises(PluginError, match=r"plugged_10 1\.0\.0") as refused:
        model_of(load_settings(model_name="echo"))
    assert problem in str(refused.value)


@pytest.mark.anyio
@pytest.mark.spec("K16")
async def test_the_model_of_a_plugin_is_asked_and_closed(install):
    install("plugged_11", models="echo = plugged_11:Echo")
    model = model_of(load_settings(model_name="echo"))
    assert model.external
    answer = await model.complete(ModelCall("hello", ModelParameters()))
    assert (answer.text, answer.model_version) == ("hello", "echo-1")
    await close_model(model)
    assert sys.modules["plugged_11"].Echo.closed


ANSWERS = {
    "error": "model_unavailable",
    "refused": "model_refused",
    "text": "model_answer_invalid",
    "version": "model_answer_invalid",
    "usage": "model_answer_invalid",
    "no mapping": "model_answer_invalid",
}


@pytest.mark.anyio
@pytest.mark.parametrize(("prompt", "code"), ANSWERS.items())
async def test_whatever_a_model_does_is_a_coded_error_that_quotes_no_prompt(install, prompt, code):
    install("plugged_12", models="odd = plugged_12:Odd")
    model = model_of(load_settings(model_name="odd"))
    with pytest.raises(ModelError) as refused:
        await model.complete(ModelCall(prompt, ModelParameters()))
    assert refused.value.code == code
    assert "secret" not in str(refused.value)


ODD = """
import asyncio
from tests.foreign_ends import ENDS

end = ENDS[{name!r}]

class Model:
    external = property(end)
    async def complete(self, call): ...

class Extractor:
    content_kinds = property(end)
    async def extract(self, source): ...

class Reader:
    read = property(end)
"""


@pytest.mark.parametrize("name", ENDS)
def test_however_a_plugin_ends_that_is_imported_or_made_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    program = ODD.format(name=name)
    queue_plugins.cache_clear()
    for number, (group, entry, load, last_line) in enumerate(
        (
            ("queues", "parcels = {}:end", queue_plugins, "end()"),
            ("extractors", "odd = {}:end", extractors, ""),
            ("extractors", "odd = {}:Extractor", extractors, ""),
            ("binding_evaluators", "court_disposition_observation = {}:end", readers, ""),
            ("binding_evaluators", "court_disposition_observation = {}:Reader", readers, ""),
            ("models", "odd = {}:end", lambda: model_plugin("odd"), ""),
            ("models", "odd = {}:Model", lambda: model_plugin("odd"), ""),
        )
    ):
        module = f"plugged_odd_{number}"
        with monkeypatch.context() as patch, nobody_at_the_keyboard():
            entries = {f"rotulus.{group}": entry.format(module)}
            text = f"{program}\n{last_line}\n"
            patch.syspath_prepend(str(install_program(tmp_path / module, module, text, entries)))
            with pytest.raises(PluginError, match=module) as refused:
                load()
        assert refused.value.code == "plugin_invalid"
        sys.modules.pop(module, None)
    queue_plugins.cache_clear()


def extractors() -> object:
    return extractor_plugins((), {})


def readers() -> object:
    return particulars_readers()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ASYNC_ENDS)
async def test_however_a_model_ends_its_caller_is_told_and_it_is_closed(name: str):
    class Odd:
        external = False
        complete = aclose = staticmethod(ASYNC_ENDS[name])

    model = PluginModel(Odd())  # type: ignore[arg-type]
    with nobody_at_the_keyboard():
        with pytest.raises(ModelError) as caught:
            await model.complete(ModelCall("secret", ModelParameters()))
        await model.aclose()
    assert caught.value.code == "model_unavailable"
    assert "secret" not in str(caught.value)
