"""One run: a fleet, its load, its faults, its judgement. `make chaos` is this as a command.

A seed is the schedule and the shape of the Redis, not the run: the same faults come in the same
order to the same targets, at the same times if the machine keeps up, and what they meet depends on
it. A fault of Redis waits for a gateway that is ready, lasts until each of those has said that
Redis does not serve, and nothing else happens until they are ready again (`readiness.py`). When
something is wrong, seed, schedule, answers, logs and the rows of the ledger stay in the folder that
the last line names. A process that ends by
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
from functools import partial
from pathlib import Path

import anyio
import psycopg

from tests.chaos.availability import bounds, silences, takeover_times
from tests.chaos.faults import INFLICT
from tests.chaos.fleet import ChaosFleet, FleetProcess, running_fleet
from tests.chaos.judge import judge, read_record
from tests.chaos.load import Answers, LoadPlan, produce, read_answers
from tests.chaos.readiness import (
    READINESS_BOUNDS,
    ReadinessWatch,
    RedisFault,
    readiness_bounds,
    readiness_findings,
    readiness_times,
    work_spans,
    work_times,
)
from tests.chaos.schedule import (
    GATEWAYS,
    KINDS,
    SHAPES,
    Fault,
    is_failover,
    is_of_redis,
    kinds_of,
    schedule,
    seconds_min,
    shape_of,
)
from tests.chaos.witness import takeovers

PATIENCE_S = 180.0
"""After the last fault, until everything was answered; and then, until every request is closed."""

READINESS_S = 60.0
"""Generous, as machines are busy: until readiness follows Redis, before the run goes on."""

POLL_S = 0.2

PRODUCERS = 8


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What a run came to."""

    seed: int
    shape: str
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

    readiness: dict[str, dict[str, float]]
    """By kind of fault of Redis, the longest: how long it lasted, until each gateway that had been
    ready said so, until it was ready again, and how long work waited until any was done.
    """

    bounds: dict[str, dict[str, float]]
    """What must hold of availability: how much there was, and how much there may be.

    A busy machine makes everything longer, so that a bound that is passed fails no test; those of
    readiness fail the command.
    """

    wrong: dict[str, list[str]]

    @property
    def late(self) -> list[str]:
        """The bounds of readiness that were passed."""
        return [
            name
            for name, bound in self.bounds.items()
            if name in READINESS_BOUNDS and bound["was"] > bound["at most"]
        ]


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
    *,
    kinds: Collection[str] = (),
    patience_s: float = PATIENCE_S,
    shape: str = "",
    settings: Mapping[str, str] | None = None,
) -> ChaosReport:
    """Run everything and return what it came to; the folder keeps what was said and answered.

    The processes of the fleet have the settings in their environments. Where no shape is named, it
    is the seed's; where no kinds are, they are all of the shape.
    """
    started_s = time.monotonic()
    shape = shape or shape_of(seed)
    faults = schedule(seed, seconds, kinds or kinds_of(shape))
    replicated = bool({"fail_over_postgres"}.intersection(fault.kind for fault in faults))
    with running_fleet(folder, replicated=replicated, shape=shape, settings=settings) as fleet:
        say(f"{shape}: started in {time.monotonic() - started_s:.1f} s")
        try:
            plan = LoadPlan.of(requests, seconds, producers)
            with ReadinessWatch(fleet.urls) as watch:
                report = _run(fleet, watch, seed, shape, plan, faults, patience_s, say)
        except BaseException:
            with suppress(psycopg.OperationalError):
                _dump(fleet, folder)
            raise
        if report.wrong:
            _dump(fleet, folder)
        return report


def _run(
    fleet: ChaosFleet,
    watch: ReadinessWatch,
    seed: int,
    shape: str,
    plan: LoadPlan,
    faults: Sequence[Fault],
    patience_s: float,
    say: Callable[[str], None],
) -> ChaosReport:
    folder = fleet.folder
    (folder / "schedule.json").write_text(json.dumps([asdict(fault) for fault in faults], indent=1))
    answers = Answers(fleet.answers_path)
    say(f"seed {seed}: {plan.requests} requests, {len(faults)} faults in {plan.seconds:g} s")
    began_s = time.monotonic()
    load = _Load(plan, fleet, answers, patience_s)
    load.start()
    faults, of_redis = _inflict(fleet, watch, faults, began_s, say)
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
    epoch_s = time.time() - time.monotonic()
    since_s = epoch_s + began_s
    came_s = [(at_s - since_s, shard, gateway) for at_s, shard, gateway in owners]
    takeover_s = takeover_times(faults, came_s)
    readiness = readiness_times(watch.sightings, of_redis)
    for kind, seconds in work_times(of_redis, work_spans(fleet.database_url, epoch_s)).items():
        readiness[kind]["work_after_s"] = seconds
    wrong = ends(fleet.processes.values()) | judge(record, answered)
    reddening = [name for name, kind in KINDS.items() if kind.reddens]
    if findings := readiness_findings(watch.sightings, of_redis, reddening):
        wrong["readiness does not follow Redis"] = findings
    if load.error is not None:
        wrong["the load failed"] = traceback.format_exception(load.error)
    if load.is_given_up:
        wrong["the load did not end"] = [f"within {patience_s:g} s: {dict(answers.again)}"]
    return ChaosReport(
        seed=seed,
        shape=shape,
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
        readiness=readiness,
        bounds=bounds(silence_s, takeover_s, record.outcomes) | readiness_bounds(readiness),
        wrong=wrong,
    )


def ends(processes: Iterable[FleetProcess]) -> dict[str, list[str]]:
    """Return what is wrong of each process that ended without having been killed, and its log."""
    endings = [
        f"{process.name} ended by itself, with {process.ended}:\n{process.tail()}"
        for process in processes
        if process.ended
    ]
    return {"a process ended by itself": endings} if endings else {}


def _inflict(
    fleet: ChaosFleet,
    watch: ReadinessWatch,
    faults: Sequence[Fault],
    began_s: float,
    say: Callable[[str], None],
) -> tuple[list[Fault], list[RedisFault]]:
    """Inflict faults one after the other.

    Returns:
        The faults with the times at which they began, and what came of those of Redis.
    """
    begun, of_redis = [], []
    for planned in faults:
        _sleep(fleet, began_s + planned.at_s - time.monotonic(), "")
        redis_fault = _prepare(fleet, watch, planned) if is_of_redis(planned.kind) else None
        fault = replace(planned, at_s=round(time.monotonic() - began_s, 3))
        begun.append(fault)
        say(f"{time.monotonic() - began_s:7.2f} s {fault}")
        if redis_fault is None:
            INFLICT[fault.kind](fleet, fault, partial(_sleep, fleet, target=fault.target))
        else:
            of_redis.append(redis_fault)
            _disturb_redis(fleet, watch, fault, redis_fault)
    return begun, of_redis


def _prepare(fleet: ChaosFleet, watch: ReadinessWatch, fault: Fault) -> RedisFault:
    """Wait until a gateway that a fault will meet is ready, and a replica is, if it takes over."""
    gateways = [fault.target] if fault.target else GATEWAYS
    _wait(fleet, lambda: bool(watch.ready(gateways)), READINESS_S)
    if is_failover(fault.kind):
        _wait(fleet, fleet.redis.is_whole, READINESS_S)
    return RedisFault(fault.kind, watch.ready(gateways))


def _disturb_redis(
    fleet: ChaosFleet, watch: ReadinessWatch, fault: Fault, redis_fault: RedisFault
) -> None:
    """Inflict a fault of Redis until every gateway is red, and wait until they are green."""
    redis_fault.begun_s = time.monotonic()

    def wait(seconds: float) -> None:
        redis_fault.begun_s = time.monotonic()
        _sleep(fleet, seconds, fault.target)
        if KINDS[fault.kind].reddens:
            _wait(fleet, lambda: watch.red(redis_fault), READINESS_S)

    INFLICT[fault.kind](fleet, fault, wait)
    # A cluster may take a while to believe that a node is well.
    _wait(fleet, fleet.redis.serves, READINESS_S)
    redis_fault.ended_s = time.monotonic()
    _wait(fleet, lambda: watch.green(redis_fault), READINESS_S)
    fleet.redis.restore()


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
    parser.add_argument("--minutes", type=float, help="without them, every kind comes once")
    parser.add_argument("--producers", type=int, default=PRODUCERS)
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds for what is late at the end"
    )
    parser.add_argument("--shape", choices=SHAPES, help="of the Redis; else the seed's")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="else all of the shape")
    options = parser.parse_args()
    shape = options.shape or shape_of(options.seed)
    kinds = options.kinds or kinds_of(shape)
    if unfit := set(kinds) - set(kinds_of(shape)):
        parser.error(f"not on a Redis of the shape {shape}: {', '.join(sorted(unfit))}")
    seconds = 60 * options.minutes if options.minutes else seconds_min(kinds)
    folder = Path(tempfile.mkdtemp(prefix="rotulus-chaos-"))
    try:
        report = run(
            folder,
            options.seed,
            options.requests,
            seconds,
            _say,
            options.producers,
            kinds=kinds,
            patience_s=options.patience,
            shape=shape,
        )
    except BaseException:
        _say(f"seed {options.seed}; kept: {folder}")
        raise
    _say(json.dumps(asdict(report), indent=1))
    if report.late:
        _say(f"later than it may be, on an idle machine: {', '.join(report.late)}")
    if not (report.wrong or report.late):
        shutil.rmtree(folder)
        return 0
    _say(f"seed {options.seed}; kept: {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
