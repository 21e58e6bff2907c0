"""One run: a fleet, its load, its faults, its judgement. `make chaos` is this as a command.

A seed is the schedule, not the run: the same faults come at the same times for the same targets,
and what they meet depends on the machine. When something is wrong, seed, schedule, answers, logs
and the rows of the ledger stay in the folder that the last line names. A process that ends by
itself is started again, as a supervisor would, and fails the run by itself: it is the first
finding, with the end of its log, even if the record is sound.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType

import anyio
import psycopg

from tests.chaos.faults import INFLICT
from tests.chaos.fleet import LEASE_S, ChaosFleet, FleetProcess, running_fleet
from tests.chaos.judge import judge, read_record
from tests.chaos.load import Answers, LoadPlan, produce, read_answers
from tests.chaos.schedule import KINDS, SECONDS_MIN, Fault, schedule
from tests.chaos.witness import takeovers

PATIENCE_S = 180.0
"""After the last fault, until everything was answered; and then, until every request is closed."""

POLL_S = 0.2

PRODUCERS = 8

SLACK_S = 3.0
"""What silence and a takeover may take beyond a lease."""

TAKEOVERS: Mapping[str, Collection[str]] = MappingProxyType(
    {
        "a kill": ("kill_gateway",),
        "a pause": ("pause_gateway", "pause_writer"),
        "a lost ledger": ("cut_postgres_of_gateway",),
        "a lost Redis": ("cut_redis_of_gateway",),
    }
)
"""What a gateway's shards are taken over after, and the kinds of fault that it is."""


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What a run came to."""

    seed: int
    requests: int
    answers: int
    asked_again: dict[str, int]
    faults: dict[str, int]
    ended_by_itself: dict[str, list[int]]
    log_rows: int
    outcomes: dict[str, int]
    seconds: dict[str, float]
    silence_s: dict[str, float]
    """By kind of fault: the longest time in which somebody waited and nobody was answered."""

    takeover_s: dict[str, float]
    """By kind of fault of a gateway: the longest time until others had its shards."""

    bounds: dict[str, dict[str, float]]
    """What must hold of availability: how much there was, and how much there may be.

    A busy machine makes everything longer, so that a bound that is passed fails no run.
    """

    wrong: dict[str, list[str]]


class _Load(threading.Thread):
    """The producers, beside the faults."""

    def __init__(
        self, plan: LoadPlan, fleet: ChaosFleet, answers: Answers, patience_s: float
    ) -> None:
        super().__init__(name="load", daemon=True)
        self._work = (plan, list(fleet.urls.values()), fleet.place_of(), answers)
        self._seconds = plan.seconds + patience_s
        self.is_given_up = False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            anyio.run(self._produce)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for it
            self.error = error

    async def _produce(self) -> None:
        with anyio.move_on_after(self._seconds) as scope:
            await produce(*self._work)
        self.is_given_up = scope.cancelled_caught


def run(
    folder: Path,
    seed: int,
    requests: int,
    seconds: float,
    say: Callable[[str], None],
    producers: int = PRODUCERS,
    kinds: Collection[str] = KINDS,
    patience_s: float = PATIENCE_S,
    **settings: str,
) -> ChaosReport:
    """Run everything and return what it came to; the folder keeps what was said and answered.

    The processes of the fleet have the settings in their environments.
    """
    started_s = time.monotonic()
    with running_fleet(folder, **settings) as fleet:
        say(f"started in {time.monotonic() - started_s:.1f} s")
        try:
            faults = schedule(seed, seconds, kinds=kinds)
            plan = LoadPlan.of(requests, seconds, producers)
            report = _run(fleet, seed, plan, faults, patience_s, say)
        except BaseException:
            with suppress(psycopg.OperationalError):
                _dump(fleet, folder)
            raise
        if report.wrong:
            _dump(fleet, folder)
        return report


def _run(
    fleet: ChaosFleet,
    seed: int,
    plan: LoadPlan,
    faults: Sequence[Fault],
    patience_s: float,
    say: Callable[[str], None],
) -> ChaosReport:
    folder = fleet.folder
    (folder / "schedule.json").write_text(json.dumps([asdict(fault) for fault in faults], indent=1))
    answers = Answers(folder / "answers.jsonl")
    say(f"seed {seed}: {plan.requests} requests, {len(faults)} faults in {plan.seconds:g} s")
    began_s = time.monotonic()
    load = _Load(plan, fleet, answers, patience_s)
    load.start()
    faults = _inflict(fleet, faults, began_s, say)
    faults_s = time.monotonic()
    _wait(fleet, lambda: not load.is_alive())
    answers.close()
    load_s = time.monotonic()
    say(f"{answers.count} answers; asked again: {dict(answers.again)}")
    _wait(fleet, lambda: not fleet.open_requests(), patience_s)
    drained_s = time.monotonic()
    # Whoever is stopped hands its shards over, which is no takeover.
    owners = takeovers(fleet.database_url)
    fleet.stop()
    record, answered = read_record(fleet.database_url), read_answers(answers.path)
    silence_s = silences(faults, began_s, answers.waits_s)
    # Both clocks are this machine's.
    epoch_s = time.time() - time.monotonic() + began_s
    takeover_s = takeover_times(faults, [(at_s - epoch_s, *who) for at_s, *who in owners])
    wrong = ends(fleet.processes.values()) | judge(record, answered)
    if load.error is not None:
        wrong["the load failed"] = traceback.format_exception(load.error)
    if load.is_given_up:
        wrong["the load did not end"] = [f"within {patience_s:g} s: {dict(answers.again)}"]
    return ChaosReport(
        seed=seed,
        requests=plan.requests,
        answers=len(answered),
        asked_again=dict(answers.again),
        faults=dict(Counter(fault.kind for fault in faults)),
        ended_by_itself={
            name: process.ended for name, process in fleet.processes.items() if process.ended
        },
        log_rows=len(record.log),
        outcomes=dict(Counter(outcome for _, outcome in record.outcomes)),
        seconds={
            "faults": round(faults_s - began_s, 1),
            "load": round(load_s - began_s, 1),
            "drained": round(drained_s - began_s, 1),
            "judged": round(time.monotonic() - began_s, 1),
        },
        silence_s=silence_s,
        takeover_s=takeover_s,
        bounds=bounds(silence_s, takeover_s, record.outcomes),
        wrong=wrong,
    )


def bounds(
    silence_s: Mapping[str, float],
    takeover_s: Mapping[str, float],
    outcomes: Iterable[tuple[str, str]],
) -> dict[str, dict[str, float]]:
    """Return what was measured of each thing that is bounded, beside its bound.

    Where no shard changed hands after a kind of fault, there is no takeover to be bounded.
    """
    within_s = LEASE_S + SLACK_S
    return {
        "longest silence, s": {"was": max(silence_s.values(), default=0.0), "at most": within_s},
        "dead letters": {
            "was": sum(outcome == "dead_letter" for _, outcome in outcomes),
            "at most": 0,
        },
        **{
            f"takeover after {name}, s": {
                "was": max(takeover_s.get(kind, 0.0) for kind in kinds),
                "at most": within_s,
            }
            for name, kinds in TAKEOVERS.items()
            if takeover_s.keys() & set(kinds)
        },
    }


def takeover_times(
    faults: Sequence[Fault], owners: Iterable[tuple[float, str, str]]
) -> dict[str, float]:
    """Return by kind the longest time from a fault of a gateway until another had a shard of its.

    A shard that stays with the gateway until the next fault was not taken over.

    Args:
        faults: in order.
        owners: when which shard came to which gateway, in order, in seconds of the run.
    """
    longest: dict[str, float] = {}
    owner_of: dict[str, str] = {}
    for at_s, shard, name in owners:
        if not name:  # released
            continue
        before, owner_of[shard] = owner_of.get(shard, ""), name
        fault = next((fault for fault in reversed(faults) if fault.at_s <= at_s), None)
        if fault is not None and fault.target == before != name:
            longest[fault.kind] = max(longest.get(fault.kind, 0.0), round(at_s - fault.at_s, 2))
    return dict(sorted(longest.items(), key=lambda item: -item[1]))


def silences(
    faults: Sequence[Fault], began_s: float, waits_s: Sequence[tuple[float, float]]
) -> dict[str, float]:
    """Return the longest time in which somebody waited and nobody was answered, by kind of fault.

    Args:
        faults: in order, each with its beginning in seconds of the run.
        began_s: when the run began.
        waits_s: when something was asked for, and when it was answered.
    """
    waits = sorted(waits_s, key=lambda wait: wait[1])
    # Of what is answered from some answer on: when the first of it was asked for.
    asked_first = list(accumulate((asked_s for asked_s, _ in reversed(waits)), min))[::-1]
    longest: dict[str, float] = {}
    before_s = began_s
    for (_, answered_s), asked_s in zip(waits, asked_first, strict=True):
        silence_s = answered_s - max(before_s, asked_s)
        last = [fault.kind for fault in faults if began_s + fault.at_s <= answered_s]
        kind = last[-1] if last else "before any"
        longest[kind] = max(longest.get(kind, 0.0), round(silence_s, 2))
        before_s = answered_s
    return dict(sorted(longest.items(), key=lambda item: -item[1]))


def ends(processes: Iterable[FleetProcess]) -> dict[str, list[str]]:
    """Return what is wrong of each process that ended without having been killed, and its log."""
    endings = [
        f"{process.name} ended by itself, with {process.ended}:\n{process.tail()}"
        for process in processes
        if process.ended
    ]
    return {"a process ended by itself": endings} if endings else {}


def _inflict(
    fleet: ChaosFleet, faults: Sequence[Fault], began_s: float, say: Callable[[str], None]
) -> list[Fault]:
    """Inflict faults one after the other, and return them with the times at which they began."""
    begun = []
    for planned in faults:
        _sleep(fleet, began_s + planned.at_s - time.monotonic(), "")
        fault = replace(planned, at_s=round(time.monotonic() - began_s, 3))
        begun.append(fault)
        say(f"{time.monotonic() - began_s:7.2f} s {fault}")

        def wait(seconds: float, target: str = fault.target) -> None:
            _sleep(fleet, seconds, target)

        INFLICT[fault.kind](fleet, fault, wait)
    return begun


def _sleep(fleet: ChaosFleet, seconds: float, target: str) -> None:
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(POLL_S, left_s))
        fleet.keep_up(except_for=target)


def _wait(fleet: ChaosFleet, done: Callable[[], bool], seconds: float = float("inf")) -> None:
    until_s = time.monotonic() + seconds
    while not done() and time.monotonic() < until_s:
        _sleep(fleet, POLL_S, "")


def _dump(fleet: ChaosFleet, folder: Path) -> None:
    """Keep the ledger's rows, by table, as text."""
    with psycopg.connect(fleet.database_url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (name,) in names.fetchall():
            with (
                (folder / f"{name}.csv").open("wb") as file,
                connection.cursor().copy(f'COPY "{name}" TO STDOUT CSV HEADER') as copied,
            ):
                for piece in copied:
                    file.write(piece)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run as a command; the folder stays when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=SECONDS_MIN / 60)
    parser.add_argument("--producers", type=int, default=PRODUCERS)
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds for what is late at the end"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rotulus-chaos-"))
    try:
        report = run(
            folder,
            options.seed,
            options.requests,
            options.minutes * 60,
            _say,
            options.producers,
            options.kinds,
            options.patience,
        )
    except BaseException:
        _say(f"seed {options.seed}; kept: {folder}")
        raise
    _say(json.dumps(asdict(report), indent=1))
    if report.wrong:
        _say(f"seed {options.seed}; kept: {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
