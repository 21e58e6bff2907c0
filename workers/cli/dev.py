"""Runs `rotulus dev`: a file of jobs, served here and begun anew at each change."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from kernel.work.queue_kinds import is_built_in
from workers.cli.common import command_error, read_settings, run
from workers.cli.log_lines import LogLines
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.environment.entry_points import APP_FOLDER
from workers.environment.settings import GATEWAY_PORT, Settings
from workers.process_tree.child_process import ChildSpec
from workers.process_tree.reloaded_child import Reload, ReloadedChild
from workers.process_tree.tree import Tree, running_tree

APP_NAME: Final = "app"
_GREEN, _RED = "32", "31"
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file of jobs: where it is imported from, and as what."""

    file: Path
    folder: Path
    module: str
    name: str

    @property
    def app(self) -> str:
        """The place of the app, as the setting names it."""
        return f"{self.module}:{self.name}"


@click.command()
@click.argument("file", metavar="FILE[:APP]")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=GATEWAY_PORT,
    show_default=True,
    help="Port of the gateway; 0 is any that is free.",
)
def dev(file: str, port: int) -> None:
    """Serve the jobs of FILE with all that they need, and anew whenever it is changed.

    FILE is a path, such as jobs.py; its app is called `app` unless another name is behind a colon.
    Ctrl-C ends everything; what was asked for stays on the record in the data folder.
    """
    target = target_of(file)
    settings = read_settings(app=target.app, port=port)
    # A setting of the environment goes on; nobody asked for less than to read along.
    if "log_level" not in settings.model_fields_set:
        settings = settings.with_changes(log_level="info")
    run(partial(_serve, settings.with_changes(log_format="json"), target))


def target_of(stated: str) -> JobFile:
    """Return the file of jobs that a command names.

    Raises:
        ClickException: `app_file_unknown`, `app_file_invalid`.
    """
    place, _, name = stated.partition(":")
    file = Path(place)
    if not file.is_file():
        raise command_error("app_file_unknown", f"there is no file {place}")
    folder = file.resolve().parent
    words = [file.stem]
    while (folder / "__init__.py").exists():
        words.insert(0, folder.name)
        folder = folder.parent
    module = ".".join(words)
    if (
        file.suffix != ".py"
        or not _MODULE.fullmatch(module)
        or not (name or APP_NAME).isidentifier()
    ):
        raise command_error("app_file_invalid", f"{stated} is no Python file that can be imported")
    return JobFile(file, folder, module, name or APP_NAME)


async def _serve(settings: Settings, target: JobFile) -> None:
    lines = LogLines()
    lines.say(f"starting {target.file} …")
    async with (
        running_tree(settings, workers=0, sink=lines.write, port_from="--port") as tree,
        GatewayClient(tree.gateway_url) as gateway,
    ):
        session = _Session(target, tree, gateway, lines)
        watched = target.file.resolve().parent
        child = ReloadedChild(
            session.worker(), lines.write, watched, session.is_ready, session.tell
        )
        await child.run()


class _Session:
    """What is said to whoever works on a file of jobs."""

    def __init__(
        self, target: JobFile, tree: Tree, gateway: GatewayClient, lines: LogLines
    ) -> None:
        self._target = target
        self._tree = tree
        self._gateway = gateway
        self._lines = lines
        self._jobs: list[str] = []
        self._is_greeted = False

    def worker(self) -> ChildSpec:
        """Return the process that has the user's code."""
        spec, folder = self._tree.further_worker, str(self._target.folder)

        def environment() -> dict[str, str]:
            assert callable(spec.env)  # noqa: S101 - as a tree makes it
            return {**spec.env(), APP_FOLDER: folder}

        return replace(spec, env=environment)

    async def is_ready(self, pid: int) -> bool:
        """Tell whether a worker beats, and remember which queues it serves."""
        with suppress(GatewayError):
            state = await self._gateway.get("/v1/queues")
            for beat in state["fleet"]:
                if beat["pid"] == pid:
                    self._jobs = [name for name in beat["queues"] if not is_built_in(name)]
                    return True
        return False

    async def tell(self, reload: Reload) -> None:
        """Say what became of the jobs."""
        name = self._target.file.name
        said: dict[str, Callable[[], tuple[str, str]]] = {
            "started": lambda: (self._serving_line(reload), _GREEN),
            "reloaded": lambda: (self._serving_line(reload), _GREEN),
            "restarted": lambda: (self._serving_line(reload), _GREEN),
            "not_loaded": lambda: ("does not load, and waits for a change", _RED),
            "not_python": lambda: (
                f"{reload.problem}; the jobs of before go on until it is mended",
                _RED,
            ),
            "ended": lambda: (f"its process ended by itself, {reload.problem}; once more", _RED),
        }
        text, colour = said[reload.happened]()
        self._lines.say(self._lines.stamp(name, text, colour))
        if reload.pid and reload.happened != "ended" and not self._is_greeted:
            self._is_greeted = True
            self._lines.say(
                "",
                f"  jobs   {', '.join(self._jobs) or 'none yet'}",
                f"  page   {self._tree.gateway_url}/",
                "  stop   Ctrl-C",
                "",
            )

    def _serving_line(self, reload: Reload) -> str:
        begun = {"reloaded": "changed, ", "restarted": "once more, "}.get(reload.happened, "")
        return f"{begun}serves {', '.join(self._jobs) or 'no jobs'} after {reload.took_s:.1f} s"
