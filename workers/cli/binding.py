"""Runs `rotulus binding`: source bindings at a running gateway (§13.1)."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

import click

from kernel.model.bindings.selectors import SELECTOR_KINDS
from kernel.model.bindings.source_binding import PRIORITY_MAX
from kernel.records.binding_pairs import READY
from workers.cli.common import (
    as_json,
    gateway_url,
    pass_settings,
    print_document,
    print_table,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.question_commands import (
    Columns,
    as_document,
    as_rows,
    of_gateway,
    question_command,
)
from workers.client.source_bindings import SourceBindings
from workers.demo.standing_bindings import CreatedBindings, create_standing_bindings
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.questions.bindings import GetBinding, GetBindingActivity, ListBindings

_SELECTOR = f"KIND=VALUE, once for each; a KIND is one of {', '.join(SELECTOR_KINDS)}."


class _Selector(click.ParamType[dict[str, str]]):
    name = "kind=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Read a selector; which kinds there are is for the kernel to say."""
        kind, equals, stated = str(value).partition("=")
        if not equals:
            self.fail("a selector is KIND=VALUE", param, ctx)
        return {"kind": kind, "value": stated}


include = click.option("--include", multiple=True, type=_Selector(), help=_SELECTOR)
exclude = click.option("--exclude", multiple=True, type=_Selector(), help="Likewise.")
target_kind = click.option("--target", help="What a fire makes: a target_kind.")
corpus = click.option("--corpus", help="The corpus that it is for.")
priority = click.option(
    "--priority", type=click.IntRange(0, PRIORITY_MAX), help="0 to 1000; the highest goes first."
)
capacity = click.option("--capacity", help="background, user_initiated or critical.")
approved_by = click.option("--approved-by", help="Who lets it run as critical, as a user.")
reason = click.option("--reason", help="Why it may run as critical.")
title = click.option("--title", help="What people call it.")


@click.group()
def binding() -> None:
    """Create, change, disable, enable and look at source bindings."""


def _meaning(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        include,
        exclude,
        target_kind,
        corpus,
        priority,
        capacity,
        approved_by,
        reason,
        title,
    )
    for option in reversed(options):
        command = option(command)
    return command


@binding.command()
@click.argument("binding_id")
@_meaning
@as_json
@pass_settings
def create(settings: Settings, /, binding_id: str, *, as_json: bool, **stated: Any) -> None:
    """Create a binding in its first generation."""
    meaning = {"selector_list": {}, "target_kind": "", "corpus_id": ""} | _option_fields(stated)
    print_document(
        _ask(settings, lambda bindings: bindings.create(binding_id, meaning)), as_json=as_json
    )


@binding.command()
@as_json
@pass_settings
def standing(settings: Settings, *, as_json: bool) -> None:
    """Create the standing bindings of dockets; those that are there stay as they are."""

    async def create_all() -> CreatedBindings:
        async with patient_client(gateway_url(settings)) as client:
            return await create_standing_bindings(client)

    print_document(asdict(run(create_all)), as_json=as_json)


@binding.command()
@click.argument("binding_id")
@_meaning
@as_json
@pass_settings
def update(settings: Settings, /, binding_id: str, *, as_json: bool, **stated: Any) -> None:
    """Change what is stated, as a further generation; the rest stays as it is."""
    print_document(
        _ask(settings, lambda bindings: bindings.update(binding_id, _option_fields(stated))),
        as_json=as_json,
    )


@binding.command()
@click.argument("binding_id")
@as_json
@pass_settings
def disable(settings: Settings, binding_id: str, *, as_json: bool) -> None:
    """Let a binding be evaluated no more."""
    answer = _ask(settings, lambda bindings: bindings.disable(binding_id))
    print_document(answer, as_json=as_json)


@binding.command()
@click.argument("binding_id")
@approved_by
@reason
@as_json
@pass_settings
def enable(settings: Settings, /, binding_id: str, *, as_json: bool, **stated: Any) -> None:
    """Let a disabled binding be evaluated again, as a further generation."""
    approval = _option_fields(stated).get("critical_approval")
    print_document(
        _ask(settings, lambda bindings: bindings.enable(binding_id, approval)), as_json=as_json
    )


def counts_text(row: Mapping[str, Any]) -> str:
    """Return how many pairs of a binding are in which state, those without a request apart."""
    most, abandoned = row["pairs_counted_max"], row["pairs_abandoned"]
    shown = {
        state: (count - abandoned if state == READY else count, "+" if count >= most else "")
        for state, count in row["pairs"].items()
    }
    shown["given_up"] = (abandoned, shown[READY][1])
    return ", ".join(f"{state} {count}{plus}" for state, (count, plus) in shown.items() if count)


_BINDINGS: Columns = {
    "binding": "binding_id",
    "state": "state",
    "generation": "binding_generation_id",
    "pairs": counts_text,
}

binding.add_command(
    question_command(ListBindings, "list", as_rows("bindings", _BINDINGS), of_gateway)
)
binding.add_command(question_command(GetBinding, "show", as_document, of_gateway))


def _print_activity(document: Any) -> None:
    echo(f"in the newest {document['manifests_looked_at']} manifests:")
    print_table(["times", "because"], [(row["times"], row["why"]) for row in document["reasons"]])
    columns = ("at", "artifact_ref", "target_ref", "why")
    for name in ("fired", "not_fired"):
        echo("", f"{name.replace('_', ' ')}:")
        print_table(columns, [[row[column] for column in columns] for row in document[name]])


binding.add_command(question_command(GetBindingActivity, "activity", _print_activity, of_gateway))


def _option_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options state, as an intent states it."""
    stated: dict[str, Any] = {}
    if options.get("include") or options.get("exclude"):
        stated["selector_list"] = {name: [*options[name]] for name in ("include", "exclude")}
    names = {"target": "target_kind", "corpus": "corpus_id", "priority": "priority"}
    names["title"] = "title"
    stated |= {
        name: options[option] for option, name in names.items() if options.get(option) is not None
    }
    if options.get("capacity") is not None:
        stated["resource_policy"] = {"capacity_priority": options["capacity"]}
    if options.get("approved_by") is not None or options.get("reason") is not None:
        stated["critical_approval"] = {
            "approved_by": options.get("approved_by") or "",
            "approver_role": "user",
            "reason": options.get("reason") or "",
        }
    return stated


def _ask(
    settings: Settings, question: Callable[[SourceBindings], Awaitable[Mapping[str, Any]]]
) -> Mapping[str, Any]:
    async def ask() -> Mapping[str, Any]:
        async with patient_client(gateway_url(settings)) as gateway:
            return await question(SourceBindings(gateway))

    answer: Mapping[str, Any] = run(ask)
    return answer
