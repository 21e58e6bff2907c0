"""Places a command: in a data folder and at a gateway, in a folder alone, or in neither.

Rules:
- Every command and every group takes `--data-dir` and `--gateway`, so both may stand anywhere
  behind `rotulus`. Of several the last one counts (decision workers/0290).
- A command to which an option would mean nothing refuses it, wherever it stands, and says why.
"""

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.environment.output import command_line

_META: Final = "rotulus.places"
_SCHEMES: Final = ("http://", "https://")
_PRINTED: Final = re.compile(r"[`]rotulus ((?:[^`'\"]|'[^']*'|\"[^\"]*\")+)`")
"""A command of ours in a text, in which a backquote is quoted."""

_ASKED: Final = "rotulus.asked"
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading an answer of another form raises."""


class PlaceRefusal(NamedTuple):
    """Why a command does not take an option; empty where it does."""

    gateway: str = ""
    data_dir: str = ""


_READS: Final = PlaceRefusal("it reads the ledger itself, of --data-dir or ROTULUS_DATABASE_URL")
_WRITES: Final = PlaceRefusal("it writes to the ledger itself, while nothing else runs")
_STARTS: Final = PlaceRefusal(
    "it starts a gateway of its own; ROTULUS_HOST and ROTULUS_PORT say where"
)
_FILES: Final = "it works on the files that it is given"
_FILES_ALONE: Final = PlaceRefusal(_FILES, _FILES)

REFUSED: Final[Mapping[str, PlaceRefusal]] = {
    "demo": _STARTS,
    "up": _STARTS,
    "dev": PlaceRefusal("it starts a gateway of its own; --port says where"),
    "gateway": _STARTS,
    "tee": PlaceRefusal("it keeps its sessions in the folder and asks no gateway"),
    "new": _FILES_ALONE,
    **dict.fromkeys(
        ("settings", "docs", "completion", "man"),
        PlaceRefusal(*["it prints the same wherever it runs"] * 2),
    ),
    "witness": _FILES_ALONE,
    "dockets": _FILES_ALONE,
    "thought key": _FILES_ALONE,
    "checkpoint key": _FILES_ALONE,
    "checkpoint stamp": _FILES_ALONE,
    "checkpoint verify": _FILES_ALONE,
    "checkpoint verify-stamp": _FILES_ALONE,
    "checkpoint publish": _READS,
    "show": _READS,
    "audit": _READS,
    "explain": _READS,
    "verify": _READS,
    "prove": _READS,
    "export": _READS,
    "backup": _READS,
    "restore": PlaceRefusal("it restores a ledger that nobody serves", "--to names the folder"),
    "archive": _WRITES,
    "archive status": _READS,
    "archive verify": _READS,
    "landscape": _READS,
    "pipeline graph": _FILES_ALONE,
    "landscape import": _WRITES,
    "landscape purge": _WRITES,
    "landscape seal": PlaceRefusal(),
    "review show": _READS,
    "review queue": _READS,
    "tree rebuild": _WRITES,
    "rollback confirm": PlaceRefusal("it signs with the keys of ROTULUS_…_CONFIRMATION_KEY here"),
    "rollback rebuild": _WRITES,
    "migrate": _WRITES,
    "migrate-log": _WRITES,
}
"""By the command's words, or the first of them; what is not named takes both options."""


def refusal_of(path: str) -> PlaceRefusal:
    """Return what the command of these words refuses."""
    return REFUSED.get(path) or REFUSED.get(path.split(" ", maxsplit=1)[0], PlaceRefusal())


def add_places(command: click.Command, path: str) -> None:
    """Give a command, and what lies under it, the two options, unless it has them."""
    if any(isinstance(parameter, _Place) for parameter in command.params):
        return
    refused = refusal_of(path) if not isinstance(command, click.Group) else PlaceRefusal()
    command.params += [
        _Place(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder of the ledger and of Redis.  [ROTULUS_DATA_DIR; ./rotulus-data]",
            refused=refused.data_dir,
        ),
        _Place(
            "--gateway",
            metavar="URL",
            help="Gateway to ask; else that of the data folder's tree.  [ROTULUS_GATEWAY_URL]",
            refused=refused.gateway,
        ),
    ]
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_places(below, f"{path} {name}")


def named_folder() -> Path | None:
    """Return the data folder that the command line names."""
    folder: Path | None = _named_places().get("data_dir")
    return folder


def named_gateway() -> str | None:
    """Return the gateway that the command line names."""
    url: str | None = _named_places().get("gateway")
    return url


def rotulus_command(
    *words: str, operands: Sequence[object] = (), options: Sequence[object] = ()
) -> str:
    """Return a command of ours to be copied, in the folder and through the gateway named here.

    A place that the command refuses is left out; `command_line` says where operands stand.
    """
    return command_line("rotulus", *_places_of(words), *words, operands=operands, options=options)


def with_places(text: str) -> str:
    """Return a text in which each `rotulus …` in backquotes names the folder and gateway as well.

    So it can be copied by whoever named them in the command that prints the text.
    """
    return _PRINTED.sub(
        lambda match: f"`{command_line('rotulus', *_places_of(match[1].split()))} {match[1]}`", text
    )


def _places_of(words: Sequence[str]) -> list[object]:
    """Return the options that name the places of this command line to the command of the words."""
    refused = refusal_of(" ".join(words[:2]))
    places = (
        ("--data-dir", named_folder(), refused.data_dir),
        ("--gateway", named_gateway(), refused.gateway),
    )
    return [part for option, value, why in places if value and not why for part in (option, value)]


def _named_places() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(_META, {})


class _Place(click.Option):
    """One of the two options; its value goes where a command and its group share what was given."""

    def __init__(self, name: str, *, refused: str, **described: Any) -> None:
        super().__init__(
            [name], expose_value=False, callback=self._take, hidden=bool(refused), **described
        )
        self._refused = refused

    def _take(self, context: click.Context, _: click.Parameter, value: Any) -> None:
        named = context.meta.setdefault(_META, {})
        if value is not None:
            if self.name == "gateway" and not value.startswith(_SCHEMES):
                message = f"{value!r} is no URL that starts with {' or '.join(_SCHEMES)}"
                raise click.BadParameter(message, context, self)
            named[self.name] = value
        if self._refused and named.get(self.name) is not None:
            message = f"{self.opts[0]} means nothing to `{context.command_path}`: {self._refused}"
            raise click.UsageError(message, context)


def note_asked(url: object) -> None:
    """Note that the command in hand asks a gateway, whose word is what it reads from then on."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_ASKED] = str(url)


@contextmanager
def reading_answers(context: click.Context) -> Iterator[None]:
    """Say that it is no gateway where a command cannot read what it asked for.

    Raises:
        click.ClickException: it met what no gateway says.
    """
    try:
        yield
    except (*_UNREADABLE, ExceptionGroup) as raised:
        error: Exception = raised
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if not isinstance(error, _UNREADABLE) or _ASKED not in context.meta:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
        problem = f"gateway_failed: {context.meta[_ASKED]} answers what no gateway says: {what}"
        raise click.ClickException(problem) from error
