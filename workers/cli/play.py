"""Runs `rotulus play`: a kit of hypotheses played through a belief session."""

from collections.abc import Sequence
from pathlib import Path

import click

from kernel.belief.adapter import Action, Answer
from kernel.belief.errors import BeliefInputError
from kernel.belief.provider import HypothesisProvider
from workers.cli.common import (
    as_json,
    clean_errors,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.places import named_gateway
from workers.environment.output import echo, printable_line
from workers.environment.system_host import system_host
from workers.kits.adapters import adapter_of
from workers.kits.discovery import discover_providers
from workers.kits.kit import Kit, bundled_kit, bundled_kits, kit_file
from workers.kits.oracles import ITBenchOracle, TwentyQOracle
from workers.kits.play import Game, GatewaySession, LocalSession, Turn
from workers.kits.play import play as play_game


@click.command()
@click.argument("kit")
@click.option("--secret", help="The hypothesis that answers are given for (Twenty Questions).")
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    metavar="PROBE=OUTCOME",
    help="What a probe finds (ITBench); once for each probe.",
)
@click.option("--on-record", is_flag=True, help="Play on a running gateway; --gateway does too.")
@as_json
def play(
    kit: str,
    secret: str | None,
    outcomes: Sequence[str],
    *,
    on_record: bool,
    as_json: bool,
) -> None:
    """Play KIT until one hypothesis is left or nothing can be asked any more.

    KIT is a bundled kit (20q_4, 20q_8, itb_min_4, sre_6), a file that ends in .toml, or the name
    of a hypothesis provider of an installed package. Without --secret and --outcome you are asked.
    """
    settings = read_settings()
    with clean_errors():
        provider = _provider(kit)
        answer = _answer(provider, secret, outcomes)
    show_turn = (lambda _: None) if as_json else _tell
    host = system_host()

    async def game() -> Game:
        adapter = adapter_of(provider)
        if not (on_record or named_gateway()):
            return await play_game(adapter, answer, LocalSession(provider, host), show_turn)
        async with patient_client(gateway_url(settings)) as client:
            session = await GatewaySession.declare(client, provider, host)
            return await play_game(adapter, answer, session, show_turn)

    played = run(game)
    if as_json:
        print_document(played.document(), as_json=True)
    else:
        echo(f"{len(played.survivors)} left: {', '.join(played.survivors)}")
        echo(f"session {played.session_id}, {played.audit_entries} audit entries")


def _provider(kit: str) -> HypothesisProvider:
    if kit.endswith(".toml"):
        return kit_file(Path(kit))
    if kit in bundled_kits():
        return bundled_kit(kit)
    providers = discover_providers()
    if kit in providers:
        return providers[kit]
    known = ", ".join(sorted({*bundled_kits(), *providers}))
    raise BeliefInputError("kit_unknown", f"{kit!r} is not in {known}")


def _answer(provider: HypothesisProvider, secret: str | None, outcomes: Sequence[str]) -> Answer:
    kind = provider.kind if isinstance(provider, Kit) else None
    if secret is not None and (kind != "twenty_questions" or outcomes):
        raise click.UsageError("--secret is for a kit of Twenty Questions, and goes alone")
    if isinstance(provider, Kit) and secret is not None:
        return TwentyQOracle(provider).knowing(secret)
    if not outcomes:
        return _ask
    if not isinstance(provider, Kit):
        raise click.UsageError("--outcome is for a kit")
    pairs = [outcome.partition("=") for outcome in outcomes]
    return ITBenchOracle(provider, {probe: result for probe, _, result in pairs}).answer


def _ask(action: Action) -> str:
    known = action.metadata.get("outcomes")
    kind = click.Choice(known, case_sensitive=False) if known else click.STRING
    answered: str = click.prompt(printable_line(action.prompt), type=kind, err=True)
    return answered


def _tell(turn: Turn) -> None:
    struck = ", ".join(turn.eliminated) or "nothing"
    echo(f"{turn.action.prompt} {turn.outcome}: removes {struck}; {turn.n_survivors} left")
