"""Runs `rotulus doctor`: what is wrong here, subject by subject, and what to do about it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import click

from kernel.proof.verification import ProofInvalid
from kernel.values.errors import KernelError
from queues.redis.connection import connect_redis
from queues.redis.memory import redis_memory
from queues.redis.watch import LedgerMark, RedisWatch
from workers.cli.common import as_json, gateway_url, print_document, read_settings, run
from workers.cli.places import with_places
from workers.cli.publication_diagnosis import diagnose_folder, unreadable, witnesses
from workers.cli.status import gateway_state
from workers.client.errors import GatewayError
from workers.environment.diagnosis import Diagnosis, State, diagnose, guard_check
from workers.environment.ledger_access import ledger_place, open_record
from workers.environment.ledger_mark import mark_in
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.views.attention_rules import line_of

MARKS: dict[State, str] = {"ok": "ok", "note": "note", "problem": "PROBLEM"}


@click.command()
@as_json
def doctor(*, as_json: bool) -> None:
    """Look at what the settings name, from the disk to the witnesses, and say what to do.

    Ends with 1 where there is a problem. Nothing is changed; a witness may cosign once more what it
    has cosigned already.
    """
    settings = read_settings()
    seen = [*diagnose(settings), *guard_check("published", diagnose_folder, settings)]
    for ask in (_witnesses, _redis, _gateway):
        seen += run(partial(ask, settings))
    if as_json:
        print_document({"diagnoses": [asdict(entry) for entry in seen]}, as_json=True)
    else:
        for entry in seen:
            echo(f"{MARKS[entry.state]:8} {entry.subject:9} {with_places(entry.what)}")
            if entry.todo:
                echo(f"{'':18} do: {with_places(entry.todo)}")
    if any(entry.state == "problem" for entry in seen):
        raise SystemExit(1)


async def _witnesses(settings: Settings) -> Sequence[Diagnosis]:
    try:
        return await witnesses(settings)
    except ProofInvalid as error:
        return [unreadable(error)]


async def _redis(settings: Settings) -> list[Diagnosis]:
    if settings.redis_url is None:
        return [Diagnosis("redis", "ok", "the embedded server, of `rotulus up` alone")]
    redis = connect_redis(str(settings.redis_url), settings.redis_prefix)
    try:
        watch = RedisWatch(redis, partial(_mark, settings), claims=False)
        if (problem := await watch.current()) is not None:
            if problem.state == "refused":
                what = f"it refuses: {problem.name}: {problem.what}"
                return [Diagnosis("redis", "problem", what, problem.todo)]
            todo = "start it, or mend ROTULUS_REDIS_URL; no answered work is lost meanwhile"
            return [Diagnosis("redis", "problem", f"it does not answer: {problem.name}", todo)]
        memory = await redis_memory(redis)
    finally:
        await redis.aclose()
    used = f"{memory.used_bytes / (1 << 20):.0f} MiB are used"
    if memory.may_evict:
        todo = "set maxmemory-policy to noeviction"
        return [Diagnosis("redis", "problem", f"it may evict keys ({memory.policy})", todo)]
    if not memory.has_room:
        return [Diagnosis("redis", "problem", f"{used}, nearly all", "give it more maxmemory")]
    return [Diagnosis("redis", "ok", used)]


async def _mark(settings: Settings) -> LedgerMark | None:
    """Return whose installation it is, as far as its record says; other checks say why not."""
    with suppress(KernelError), open_record(ledger_place(settings)) as view:
        return mark_in(view, settings)
    return None


async def _gateway(settings: Settings) -> list[Diagnosis]:
    url = gateway_url(settings)
    try:
        state = await gateway_state(url)
    except GatewayError as error:
        return [Diagnosis("gateway", "note", str(error), "`rotulus up`, if it is to run")]
    problems = [Diagnosis("gateway", "problem", line_of(item)) for item in state["attention"]]
    well = Diagnosis("gateway", "ok", f"{url} is ready, and nothing waits for a person")
    return problems or [well]
