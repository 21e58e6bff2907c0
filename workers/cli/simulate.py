"""Runs `rotulus simulate`: what an operation would come to, asked of a running gateway."""

from typing import Any, BinaryIO
from uuid import UUID

import click

from workers.cli.common import as_json, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway
from workers.cli.input_file import InputFile, read_object
from workers.environment.system_host import system_host


@click.command()
@click.argument("session", type=click.UUID)
@click.argument("file", type=InputFile())
@as_json
def simulate(session: UUID, file: BinaryIO, *, as_json: bool) -> None:
    """Ask what the operation in FILE (JSON, - for standard input) would come to in SESSION.

    FILE holds an object with an "intent" or an "envelope", and if need be a "policy", a
    "retention" and a "simulation_key". Nothing of the operation happens.
    """
    settings = read_settings()
    body = read_object(file)
    # The gateway may be asked again when it does not answer, and must know the asking then.
    body.setdefault("simulation_key", system_host().new_id())

    answer = ask_gateway(gateway_url(settings), f"/v1/sessions/{session}/simulations", body)
    print_document(answer if as_json else _summary(answer["preview"]), as_json=as_json)


def _summary(preview: dict[str, Any]) -> dict[str, Any]:
    """Return what a person wants to know first; the records are in the JSON."""
    state = preview["preview_state"]
    payload = state.pop("preview_payload")
    changes = [f"{change['store']} {change['record_key']}" for change in payload.pop("changes", [])]
    return {
        "preview_id": preview["preview_id"],
        "visibility": preview["simulation_visibility_taint"],
        **{name: preview[name] for name in ("rendered_visibility_warning",) if name in preview},
        **state,
        **payload,
        "would_write": changes,
    }
