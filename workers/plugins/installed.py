"""Loads and checks the plug-ins that are installed, with their queues in the table."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.values.foreign_code import call_foreign, cause_of
from kernel.work.queue_kinds import register_queue
from workers.environment.entry_points import (
    APP,
    BINDING_EVALUATORS,
    ELIMINATION_STORES,
    EXTRACTORS,
    MODELS,
    QUEUES,
    REDACTORS,
    PluginError,
    import_from_current_folder,
    load_plugin,
    plugins_of,
)
from workers.plugins.job_app import App
from workers.plugins.plugin_elimination_store import PluginEliminationStore
from workers.plugins.plugin_model import PluginModel
from workers.plugins.queue_plugin import QueuePlugin

T = TypeVar("T")


@cache
def queue_plugins(app: str | None = None) -> Mapping[str, QueuePlugin]:
    """Return the queues of plug-ins and of an app; adds them to the table of this process.

    Args:
        app: the place of an `App`, MODULE:NAME, looked for in the current folder as well.

    Raises:
        PluginError: one of them cannot be used; the process is not to serve then.
    """
    plugins: dict[str, QueuePlugin] = {}
    for entry, plugin in (*_installed_queues(), *_queues_of_app(app)):
        name = plugin.name
        if name in plugins:
            raise PluginError(entry, f"a plug-in has a queue that is called {name!r} too")
        try:
            call_foreign(plugin.check)
            call_foreign(register_queue, plugin.kind)
        except ValueError as error:
            raise PluginError(entry, str(error)) from error
        except Exception as error:
            raise PluginError(entry, f"it cannot be checked: {cause_of(error)!r}") from error
        plugins[name] = plugin
    return MappingProxyType(plugins)


def _installed_queues() -> Iterator[tuple[EntryPoint, QueuePlugin]]:
    for name, entry in sorted(plugins_of(QUEUES).items()):
        plugin = load_plugin(entry)
        if not isinstance(plugin, QueuePlugin):
            raise PluginError(entry, f"it is a {type(plugin).__name__}, no QueuePlugin")
        if plugin.name != name:
            raise PluginError(entry, f"its queue is called {plugin.name!r}, not as it is")
        yield entry, plugin


def _queues_of_app(place: str | None) -> Iterator[tuple[EntryPoint, QueuePlugin]]:
    if place is None:
        return
    entry, app = _app_at(place)
    for plugin in app.plugins:
        yield entry, plugin


def _app_at(place: str) -> tuple[EntryPoint, App]:
    entry = EntryPoint("app", place, APP)
    import_from_current_folder()
    app = load_plugin(entry)
    if not isinstance(app, App):
        raise PluginError(entry, f"it is a {type(app).__name__}, no App")
    return entry, app


def redactors(app: str | None = None) -> tuple[Callable[[str], str], ...]:
    """Return what leaves of the texts of errors what may be kept: of plug-ins, then of an app.

    Raises:
        PluginError: one of them cannot be used.
    """
    functions = []
    for _, entry in sorted(plugins_of(REDACTORS).items()):
        redact = load_plugin(entry)
        if not callable(redact):
            raise PluginError(entry, f"it is a {type(redact).__name__}, no function")
        functions.append(redact)
    if app is not None and (redact := _app_at(app)[1].redact) is not None:
        functions.append(redact)
    return tuple(functions)


def particulars_readers() -> Mapping[str, Any]:
    """Return what plug-ins evaluate bindings with, by the target kind that is their name.

    Raises:
        PluginError: one of them cannot be used.
    """
    kinds = get_args(BindingTargetKind)
    readers = {}
    for name, entry in plugins_of(BINDING_EVALUATORS).items():
        if name not in kinds:
            raise PluginError(entry, f"no target kind is called so; there are {', '.join(kinds)}")
        readers[name] = _make_plugin(entry, "read")
    return readers


def extractor_plugins(names: Collection[str], serving: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the extractors of plug-ins by name; see `Extractor`.

    Args:
        names: of the extractors that are there already.
        serving: by kind of contents, which of those serves it.

    Raises:
        PluginError: one of them cannot be used, or claims what another has.
    """
    made, taken = {}, dict(serving)
    for name, entry in sorted(plugins_of(EXTRACTORS).items()):
        if name in names:
            raise PluginError(entry, "an extractor of that name is part of Rotulus")
        extractor = _make_plugin(entry, "extract")
        for kind in _ask_plugin(entry, lambda: tuple(getattr(extractor, "content_kinds", ()))):  # noqa: B023
            if kind in taken:
                raise PluginError(entry, f"contents of kind {kind!r} are served by {taken[kind]!r}")
            taken[kind] = name
        made[name] = extractor
    return made


def model_plugin(name: str) -> PluginModel:
    """Return the model that a plug-in offers under a name, made anew; see `ModelClient`.

    Raises:
        PluginError: it cannot be used.
    """
    entry = plugins_of(MODELS)[name]  # settings name none that is not there
    model = _make_plugin(entry, "complete")
    # Sealed sources are kept from what leaves this machine, so silence is no answer here.
    if not isinstance(_ask_plugin(entry, lambda: getattr(model, "external", None)), bool):
        problem = "it does not say by `external`, True or False, whether prompts leave this machine"
        raise PluginError(entry, problem)
    return PluginModel(model)


def elimination_store_plugin(name: str) -> PluginEliminationStore:
    """Return the elimination store that a plug-in offers under a name; see `EliminationStore`.

    Raises:
        PluginError: it cannot be used.
    """
    entry = plugins_of(ELIMINATION_STORES)[name]  # settings name none that is not there
    return PluginEliminationStore(_make_plugin(entry, "recover"))


def _make_plugin(entry: EntryPoint, method: str) -> Any:
    """Call what an entry point names, without arguments, and return what has the method."""
    made = _ask_plugin(entry, load_plugin(entry))
    if not callable(_ask_plugin(entry, lambda: getattr(made, method, None))):
        raise PluginError(entry, f"what it makes has no method {method!r}")
    return made


def _ask_plugin(entry: EntryPoint, function: Callable[[], T]) -> T:
    """Call what reads a plug-in, or is one."""
    try:
        return call_foreign(function)
    except Exception as error:
        raise PluginError(entry, f"it cannot be made: {cause_of(error)!r}") from error
