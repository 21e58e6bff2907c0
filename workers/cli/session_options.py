"""Helps the commands of `rotulus session`: the place of the session, options, printing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from pydantic import BaseModel

from workers.cli.common import gateway_url, print_document, read_settings, run
from workers.cli.gateway_call import patient_client
from workers.cli.question_commands import Columns
from workers.client.typed.belief_session import SessionClient
from workers.environment.output import echo
from workers.views.session_lists import session_state

P = ParamSpec("P")
T = TypeVar("T")

session_id = click.argument("session_id", type=click.UUID)
survivors = click.option(
    "--survivors",
    type=click.IntRange(0, 1_000_000),
    default=20,
    show_default=True,
    help="List at most so many survivors.",
)


SESSIONS: Columns = {
    "last changed": "updated_at",
    "survivors": lambda row: f"{row['n_survivors']}/{row['n_universe']}",
    "session": "session_id",
    "state": session_state,
    "title": "title",
}
"""How sessions are listed."""


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """The gateway that serves the session."""

    url: str

    def run(
        self, known_as: object, ask: Callable[[SessionClient], Awaitable[Any]], **options: Any
    ) -> Any:
        """Ask the session and return what it answered."""

        async def ask_session() -> Any:
            async with patient_client(self.url) as gateway:
                return await ask(SessionClient(gateway, str(known_as), **options))

        return run(ask_session)


def pass_address(command: Callable[Concatenate[SessionAddress, P], T]) -> Callable[P, T]:
    """Give a command the gateway that serves its session."""

    @wraps(command)
    def with_address(*arguments: P.args, **options: P.kwargs) -> T:
        return command(SessionAddress(gateway_url(read_settings())), *arguments, **options)

    return with_address


def print_answer(answer: BaseModel, *, as_json: bool) -> None:
    """Print what a session answered, its snapshot last."""
    document = answer.model_dump(exclude_none=not as_json)
    if as_json:
        print_document(document, as_json=True)
        return
    snapshot = document.pop("snapshot", None)
    proof = document.pop("elimination_proof", None)
    if proof is not None:
        inclusion, head = proof["inclusion"], proof["inclusion"]["tree_head"]
        proved = f"row {inclusion['ec_sequence_number']} under {head['tree_size']}:"
        document["proved"] = proved + head["root_hash"]
    for name, value in document.items():
        print_line(name, value)
    for name, value in (snapshot or {}).items():
        print_line(name, value)


def print_line(name: str, value: Any) -> None:
    """Print one field for a person."""
    if isinstance(value, list):
        value = " ".join(
            ":".join(item.values()) if isinstance(item, dict) else item for item in value
        )
    elif isinstance(value, dict):
        value = " ".join(str(element) for element in value.values())
    elif isinstance(value, bool):
        value = "yes" if value else "no"
    echo(f"{name:<22}{value}".rstrip())
