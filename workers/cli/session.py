"""Runs `rotulus session`: the belief protocol of a running gateway at a terminal."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO
from uuid import UUID

import click
from pydantic import BaseModel

from kernel.belief.limits import MAX_HYPOTHESES, MAX_ID_CHARS, MAX_STABILITY_WINDOW
from kernel.values.json_lines import LineRefused, text_lines
from workers.cli.common import (
    as_json,
)
from workers.cli.input_file import InputFile, input_invalid, line_error
from workers.cli.question_commands import as_rows, of_gateway, question_command
from workers.cli.session_inspect import audit, replay, show, watch
from workers.cli.session_options import (
    SESSIONS,
    SessionAddress,
    pass_address,
    print_answer,
    session_id,
    survivors,
)
from workers.environment.system_host import system_host
from workers.questions.sessions import ListSessions
from workers.views.belief_sessions import Ontology

LINE_BYTES_MAX = 4 * MAX_ID_CHARS + 2

if_match = click.option(
    "--if-match", metavar="EVENT_ID", help="Only if this is the session's last audit entry."
)


@click.group()
def session() -> None:
    """Declare, eliminate, succeed, look at and replay a belief session on a running gateway."""


_list = question_command(ListSessions, "list", as_rows("sessions", SESSIONS), of_gateway)

for _command in (_list, show, audit, watch, replay):
    session.add_command(_command)


@session.command()
@click.argument("hypotheses", nargs=-1)
@click.option("--file", type=InputFile(), help="Hypotheses from a file, one a line; - is stdin.")
@click.option("--session-id", "known_as", type=click.UUID, help="Its id, for declaring it again.")
@click.option(
    "--ontology",
    type=(str, str, str, str),
    default=("cli", "1", "none", "0"),
    show_default=True,
    metavar="SPACE VERSION GRAPH VERSION",
    help="The hypothesis space and the causal graph that it refers to.",
)
@click.option("--validate", is_flag=True, help="Refuse an elimination that names an unknown id.")
@click.option("--allow-force", is_flag=True, help="Let `terminate --force` end it.")
@click.option(
    "--stability-window",
    type=click.IntRange(0, MAX_STABILITY_WINDOW),
    default=0,
    show_default=True,
    help="How many last conclusions have to be the same before it may end.",
)
@survivors
@as_json
@pass_address
def declare(  # noqa: PLR0913 - a declaration has as many parts
    place: SessionAddress,
    hypotheses: Sequence[str],
    file: BinaryIO | None,
    known_as: UUID | None,
    ontology: tuple[str, str, str, str],
    stability_window: int,
    survivors: int,
    *,
    validate: bool,
    allow_force: bool,
    as_json: bool,
) -> None:
    """Open a session over HYPOTHESES and print its id."""
    names = [*hypotheses, *(_names_in(file) if file else ())]
    bundle = Ontology(**dict(zip(Ontology.model_fields, ontology, strict=True)))
    policy = {
        "validate_hypotheses": validate,
        "allow_force": allow_force,
        "stability_window": stability_window,
    }
    new_id = known_as or system_host().new_id()
    print_answer(
        place.run(
            new_id, lambda client: client.declare(bundle, names, **policy), survivors=survivors
        ),
        as_json=as_json,
    )


@session.command()
@session_id
@click.argument("hypotheses", nargs=-1)
@click.option("--source", required=True, help="Who observed: adapter://…, human://…")
@click.option("--observation", required=True, help="The observation's id; again is answered again.")
@click.option("--why", help="A justification; it is stored and not read.")
@click.option(
    "--proof",
    is_flag=True,
    help="Have the answer prove that the tombstone is in the log, and verify that.",
)
@if_match
@survivors
@as_json
@pass_address
def eliminate(  # noqa: PLR0913
    place: SessionAddress,
    session_id: UUID,
    hypotheses: Sequence[str],
    source: str,
    observation: str,
    why: str | None,
    if_match: str | None,
    survivors: int,
    *,
    proof: bool,
    as_json: bool,
) -> None:
    """Strike HYPOTHESES."""
    reason = None if why is None else {"why": why}
    print_answer(
        place.run(
            session_id,
            lambda client: client.eliminate(
                source, observation, hypotheses, reason, expected_head=if_match, prove=proof
            ),
            survivors=survivors,
        ),
        as_json=as_json,
    )


@session.command()
@session_id
@click.argument("obligation_id")
@click.argument("min_total_eliminations", type=click.IntRange(0, MAX_HYPOTHESES))
@if_match
@as_json
@pass_address
def obligation(
    place: SessionAddress,
    session_id: UUID,
    obligation_id: str,
    min_total_eliminations: int,
    if_match: str | None,
    *,
    as_json: bool,
) -> None:
    """Open an obligation that a number of further eliminations discharges."""
    print_answer(
        place.run(
            session_id,
            lambda client: client.enter_obligation(
                obligation_id, min_total_eliminations, expected_head=if_match
            ),
            survivors=0,
        ),
        as_json=as_json,
    )


@session.command("exit")
@session_id
@click.argument("obligation_id")
@if_match
@as_json
@pass_address
def leave(
    place: SessionAddress,
    session_id: UUID,
    obligation_id: str,
    if_match: str | None,
    *,
    as_json: bool,
) -> None:
    """Ask to close an obligation; ends with 1 when that is turned down."""
    answer = place.run(
        session_id,
        lambda client: client.request_exit(obligation_id, expected_head=if_match),
        survivors=0,
    )
    _print_verdict(answer, passed=answer.approved, as_json=as_json)


@session.command()
@session_id
@click.argument("conclusion_id")
@if_match
@as_json
@pass_address
def conclude(
    place: SessionAddress,
    session_id: UUID,
    conclusion_id: str,
    if_match: str | None,
    *,
    as_json: bool,
) -> None:
    """Declare a conclusion; ends with 1 when it is turned down."""
    answer = place.run(
        session_id,
        lambda client: client.declare_conclusion(conclusion_id, expected_head=if_match),
        survivors=0,
    )
    _print_verdict(answer, passed=answer.accepted, as_json=as_json)


@session.command()
@session_id
@click.option("--force", is_flag=True, help="Ask for it with several survivors.")
@if_match
@as_json
@pass_address
def terminate(
    place: SessionAddress, session_id: UUID, if_match: str | None, *, force: bool, as_json: bool
) -> None:
    """Ask to end the session; ends with 1 when that is turned down."""
    context = {"force": True} if force else None
    answer = place.run(
        session_id,
        lambda client: client.request_termination(context, expected_head=if_match),
        survivors=0,
    )
    _print_verdict(answer, passed=answer.approved, as_json=as_json)


@session.command()
@session_id
@click.option("--reason", required=True, help="Why it is closed; it is stored.")
@click.option(
    "--undone",
    type=(str, str),
    multiple=True,
    metavar="SOURCE OBSERVATION",
    help="An elimination whose ground was undone; again for each. All others hold on.",
)
@click.option("--cause", help="What undid it; it is stored and not read.")
@click.option("--successor-id", type=click.UUID, help="The id of the session that goes on.")
@if_match
@as_json
@pass_address
def succeed(
    place: SessionAddress,
    session_id: UUID,
    reason: str,
    undone: Sequence[tuple[str, str]],
    cause: str | None,
    successor_id: UUID | None,
    if_match: str | None,
    *,
    as_json: bool,
) -> None:
    """Close the session, because something in it was undone, and go on in a successor.

    What was struck stays struck in this session; the successor has every hypothesis again but for
    what the other eliminations struck. The same again is answered as the first time.
    """
    answer = place.run(
        session_id,
        lambda client: client.succeed(
            reason,
            undone=undone,
            cause=None if cause is None else {"cause": cause},
            successor_id=None if successor_id is None else str(successor_id),
            expected_head=if_match,
        ),
        survivors=0,
    )
    print_answer(answer, as_json=as_json)


def _names_in(file: BinaryIO) -> Iterator[str]:
    """Yield the text of each line that is not empty."""
    allowed = f"text in UTF-8 of at most {MAX_ID_CHARS} characters"
    try:
        for line in text_lines(file, LINE_BYTES_MAX):
            name = _text(line.content)
            if name is None:
                problem = f"no hypothesis, {line.size} bytes; allowed: {allowed}"
                raise input_invalid(file, problem, line.number)
            if name.strip():
                yield name
    except LineRefused as refused:
        raise line_error(file, refused) from None


def _text(content: bytes | None) -> str | None:
    """Return the text of a line, None where it is none or too long."""
    try:
        text = None if content is None else content.decode()
    except UnicodeDecodeError:
        return None
    return text if text is None or len(text) <= MAX_ID_CHARS else None


def _print_verdict(answer: BaseModel, *, passed: bool, as_json: bool) -> None:
    print_answer(answer, as_json=as_json)
    if not passed:
        raise click.exceptions.Exit(1)
