"""Drives a fleet with hostile requests and hostile values in Redis, as a test or as `make fuzz`.

What must hold: no process ends, every answer is typed, legal work succeeds, `/healthz` answers
within 100 ms of the gateway's own time, the memory of a gateway stays within twice its idle size
(2 s after 200 legal requests) and 64 MiB (a body of the largest size is 8 MiB, and takes a few
times that while it is read), the record verifies.

A gateway may answer that something is missing (`reply_lost`, `queue_unavailable`) only while Redis
is attacked, which is in the last fifth of each 2,000 requests. Legal work is asked for again until
it is taken, and everything has to be ready and done afterwards. A process that ends, or a traceback
in its log, is a failure by itself; nobody starts it again.
"""

import argparse
import base64
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from tests.fuzz.client import Connection, NoAnswerError, Plan
from tests.fuzz.fleet import GATEWAYS, STORES, FuzzFleet, running_fuzz_fleet
from tests.fuzz.health import LIMIT_S
from tests.fuzz.hostile import Shot
from tests.fuzz.judge import wrong_with
from tests.fuzz.legal import LEGAL_PREFIX, QUEUES
from tests.loop_watchdog import STALL_S, Stall
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import open_store, verify_file
from workers.environment.system_host import system_host

MEBIBYTE: Final = 1 << 20
WARM_UP: Final = 200
"""Legal requests after which a gateway has its idle size."""

IDLE_S: Final = 2.0
SLACK_BYTES: Final = 64 * MEBIBYTE
ROUND: Final = 2000
"""Hostile requests between two looks at how it stands, and of which a fifth meets a Redis that is
being attacked as well."""

DISTURBED: Final = 5
STILL_S: Final = 180.0
"""A queue that has legal work and ends nothing for so long stands still."""

DRAIN_LOOK_S: Final = 1.0
CALLBACK_S: Final = 2 * STALL_S
"""CPU time of one callback; a processor that others use as well is slower than one alone."""

STACK_CHARS: Final = 1500

RECOVER_S: Final = 60.0
LOOK_S: Final = 0.1

ENDS: Final = frozenset({0, -signal.SIGTERM})
"""How a process ends that was asked to; a server lets the signal end it once it is done."""

Say = Callable[[str], None]


@dataclass
class Report:
    """What a run came to; anything in `wrong` is a failure."""

    store: str
    seed: int
    hostile: int = 0
    legal: int = 0
    redis_values: int = 0
    seconds: float = 0.0
    sent_mib: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    asked_again: Counter[str] = field(default_factory=Counter)
    slowest: list[Any] = field(default_factory=list)
    health: dict[str, Any] = field(default_factory=dict)
    rss_idle_mib: dict[str, int] = field(default_factory=dict)
    rss_most_mib: dict[str, int] = field(default_factory=dict)
    stalls: dict[str, list[str]] = field(default_factory=dict)
    """What held each loop longest, in CPU time."""

    log_rows: int = 0
    wrong: list[str] = field(default_factory=list)


class _Run:
    """One run on one store."""

    def __init__(self, fleet: FuzzFleet, report: Report, say: Say) -> None:
        self.fleet, self.report, self.say = fleet, report, say
        self.most: Counter[str] = Counter()

    def begin(self) -> None:
        """Ask for what later requests go to, warm up, and see how large a gateway is then."""
        ports = tuple(self.fleet.ports.values())
        self.send(Plan(ports, self.report.seed, 0, 0, begin=True))
        self.send(Plan(ports, self.report.seed, 0, 0, legal=WARM_UP))
        time.sleep(IDLE_S)
        self.idle = self.fleet.rss()
        # What a process loads when it is first asked is no request's doing.
        self.before = {name: {*stalls} for name, stalls in self.fleet.stalls().items()}

    def attack(self, requests: int, redis_values: int, seconds: float) -> None:
        """Send hostile requests, so many and for so long; Redis is attacked in the last fifth."""
        ports, seed, began_s = tuple(self.fleet.ports.values()), self.report.seed, time.monotonic()
        first = 0
        with self.watched():
            while first < requests or time.monotonic() - began_s < seconds:
                count = min(ROUND, requests - first) if first < requests else ROUND
                calm = count - count // DISTURBED
                self.send(Plan(ports, seed, first, calm))
                # As many in all as were asked for; a longer run goes on at the same rate.
                values = -(-redis_values * count // max(requests, 1))
                last = Plan(ports, seed, first + calm, count - calm)
                if values:
                    self.attack_redis(seed + first, values, last)
                else:
                    self.send(last)
                first += count
                self.say(f"{time.monotonic() - began_s:6.1f} s {first} requests")
                if self.report.wrong and len(self.report.wrong) > 100:
                    return

    def attack_redis(self, seed: int, count: int, plan: Plan) -> None:
        """Attack Redis while requests are sent, and see that the fleet recovers."""
        written = threading.Thread(
            target=lambda: anyio.run(self.fleet.attack_redis, seed, count), daemon=True
        )
        written.start()
        self.send(replace(plan, disturbed=True))
        written.join()
        self.report.redis_values += count
        self.recovered()

    def recovered(self) -> None:
        """Wait until every gateway is ready again."""
        for name in GATEWAYS:
            try:
                wait_for(
                    f"gateway {name} to be ready after Redis was attacked",
                    lambda name=name: (
                        name in self.fleet.ended()
                        or self.fleet.readiness(name).get("status") == "ready"
                    ),
                    RECOVER_S,
                )
            except AssertionError as error:
                self.report.wrong.append(f"{error}: {self.fleet.readiness(name)}")

    def send(self, plan: Plan) -> None:
        """Let a process of its own send, until it has or until a process of the fleet ended."""
        sender = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert sender.stdin is not None
        assert sender.stdout is not None
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(sender, over), daemon=True)
        watch.start()
        sender.stdin.write(json.dumps(asdict(plan)) + "\n")
        sender.stdin.flush()
        for line in sender.stdout:
            self._hear(json.loads(line))
        sender.wait()
        sender.stdin.close()
        sender.stdout.close()
        over.set()
        watch.join()
        self.ended()

    def ended(self) -> None:
        """A process that has ended ends the run."""
        ended = self.fleet.ended()
        if ended:
            self.report.wrong.append(f"processes ended: {dict(ended)}")
            raise EndedError(str(dict(ended)))

    def _watch(self, sender: subprocess.Popen[str], over: threading.Event) -> None:
        while not over.wait(LOOK_S):
            if self.fleet.ended():
                sender.kill()
                return
            for name, size in self.fleet.rss().items():
                self.most[name] = max(self.most[name], size)

    def _hear(self, line: dict[str, Any]) -> None:
        report = self.report
        if "tally" in line:
            tally = line["tally"]
            report.hostile += tally["hostile"]
            report.legal += tally["legal"]
            report.sent_mib = round(report.sent_mib + tally["sent_bytes"] / MEBIBYTE, 1)
            report.statuses.update(tally["statuses"])
            report.asked_again.update(tally["asked_again"])
            report.slowest = sorted([*report.slowest, *tally["slowest"]], reverse=True)[:5]
            return
        problem = line["problem"]
        path = self.fleet.folder / f"problem-{len(report.wrong)}.json"
        path.write_text(json.dumps(problem, indent=1))
        report.wrong.append(
            f"{problem['wrong']}: {problem['route']}, {problem['how']}; --replay {path}"
        )
        self.say(report.wrong[-1])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Ask after the health of every gateway for the time of a block."""
        places = {n: (port, self.fleet.processes[n].pid) for n, port in self.fleet.ports.items()}
        asking = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.health"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert asking.stdin is not None
        asking.stdin.write(json.dumps(places) + "\n")
        asking.stdin.flush()
        try:
            yield
        finally:
            told, _ = asking.communicate(timeout=120)
            self.report.health = json.loads(told)

    def judge(self) -> None:
        """Let everything drain and end, and say what is wrong with what is left."""
        report = self.report
        report.rss_idle_mib = {name: size // MEBIBYTE for name, size in self.idle.items()}
        report.rss_most_mib = {name: size // MEBIBYTE for name, size in self.most.items()}
        report.wrong += wrong_with_memory(self.idle, self.most)
        report.wrong += wrong_with_health(report.health)
        held = {
            name: [one for one in stalls if one not in self.before[name]]
            for name, stalls in self.fleet.stalls().items()
        }
        report.stalls = {
            name: [str(one)[:STACK_CHARS] for one in stalls[:5]] for name, stalls in held.items()
        }
        report.wrong += wrong_with_loops(held)
        for queue in QUEUES:
            for priority in (None, "critical"):
                self.fleet.post("a", f"/v1/queues/{queue}/resume", {"priority": priority})
        ledger = Ledger(open_store(self.fleet.place, read_only=True), system_host())
        report.wrong += self.drained(ledger)
        report.wrong += [f"legal, and given up: {name}" for name in dead_legal_work(ledger)]
        ledger.close()
        self.ended()
        ends = self.fleet.end()
        report.wrong += [
            f"{name} ended with {code}" for name, code in ends.items() if code not in ENDS
        ]
        found = verify_file(self.fleet.place, lambda _done, _total: None)
        report.log_rows = found.rows
        report.wrong += [f"the record: {finding}" for finding in found.findings]

    def drained(self, ledger: Ledger) -> list[str]:
        """Wait until legal work is done; a queue that has some, and does nothing, stands still."""
        moved_s: dict[str, float] = {}
        before: Mapping[str, int] = {}
        while legal := open_legal_work(ledger):
            done = outcomes_by_queue(ledger)
            now_s = time.monotonic()
            for queue in legal:
                if done[queue] != before.get(queue) or queue not in moved_s:
                    moved_s[queue] = now_s
                if now_s - moved_s[queue] > STILL_S:
                    return [f"{queue} stands still, and has {legal[queue][:5]}"]
            before = done
            time.sleep(DRAIN_LOOK_S)
            self.ended()
        return []


class EndedError(Exception):
    """A process of the fleet has ended."""


def wrong_with_memory(idle: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """Say which gateway has grown beyond twice its idle size."""
    return [
        f"gateway {name} grew from {idle[name] // MEBIBYTE} to {size // MEBIBYTE} MiB"
        for name, size in most.items()
        if size > 2 * idle[name] + SLACK_BYTES
    ]


def wrong_with_health(health: Mapping[str, Any]) -> list[str]:
    """Say which gateway was not alive in time."""
    wrong = []
    for name, told in health.items():
        if told["unanswered"]:
            wrong.append(f"gateway {name}: {told['unanswered']} questions after health unanswered")
        wrong += [
            f"gateway {name}: health after {one['own_s'] * 1000:.0f} ms of its own"
            f" ({one['elapsed_s'] * 1000:.0f} ms in all), {one['at_s']:.1f} s after the begin"
            for one in told["worst"]
            if one["own_s"] > LIMIT_S
        ]
        if not told["asked"]:
            wrong.append(f"gateway {name}: nobody asked after its health")
    return wrong


def wrong_with_loops(held: Mapping[str, Sequence[Stall]]) -> list[str]:
    """Say which loop was held for longer than a callback may take."""
    return [
        f"gateway {name}: {stall}"
        for name, stalls in held.items()
        for stall in stalls
        if stall.measure == "callback" and stall.seconds > CALLBACK_S
    ]


def open_legal_work(ledger: Ledger) -> dict[str, list[str]]:
    """Return the legal requests that have no outcome yet, by queue."""
    found = defaultdict(list)
    with ledger.view() as view:
        for row in view.tables.select(schema.outbox, {"open": 1}):
            if LEGAL_PREFIX.encode() in row["request_bytes"]:
                found[row["queue"]].append(row["request_id"])
    return dict(found)


def outcomes_by_queue(ledger: Ledger) -> Counter[str]:
    """Return how many requests of each queue have their outcome."""
    with ledger.view() as view:
        return Counter(row["queue"] for row in view.tables.select(schema.outbox, {"open": 0}))


def dead_legal_work(ledger: Ledger) -> list[str]:
    """Return the legal requests that were given up."""
    with ledger.view() as view:
        dead = view.tables.select(schema.outbox_outcomes, {"outcome": "dead_letter"})
        requests = [view.tables.get(schema.outbox, row["request_id"]) for row in dead]
    return [
        row["request_id"]
        for row in requests
        if row is not None and LEGAL_PREFIX.encode() in row["request_bytes"]
    ]


def run(
    folder: Path,
    store: str,
    seed: int,
    requests: int,
    redis_values: int,
    say: Say,
    *,
    seconds: float = 0.0,
) -> Report:
    """Run everything on one store; the folder keeps what was said and what was answered wrongly."""
    report, began_s = Report(store, seed), time.monotonic()
    say(
        f"{store}: seed {seed}; {requests} hostile requests, {redis_values} hostile values in Redis"
    )
    with running_fuzz_fleet(folder, store) as fleet:
        course = _Run(fleet, report, say)
        try:
            course.begin()
            course.attack(requests, redis_values, seconds)
            course.judge()
        except EndedError:
            say(fleet.tails())
        for name, process in fleet.processes.items():
            tracebacks = process.log.read_text(errors="replace").count("Traceback (most recent")
            if tracebacks:
                report.wrong.append(f"{name} logged {tracebacks} tracebacks: {process.log}")
    report.seconds = round(time.monotonic() - began_s, 1)
    return report


def replay(folder: Path, file: Path, store: str, say: Say) -> list[str]:
    """Send the bytes of one problem to a new fleet, and return what is wrong with the answers."""
    told = json.loads(file.read_text())
    content = base64.b64decode(told["content"])
    shot = Shot(told["route"], told["how"], told["manner"], content, told["answers"])
    with running_fuzz_fleet(folder, store) as fleet:
        report = Report(store, told["seed"])
        course = _Run(fleet, report, say)
        course.begin()
        for name in GATEWAYS:
            connection = Connection(fleet.ports[name])
            connection.send(content)
            connection.patience(10.0)
            try:
                answer = connection.answer()
            except (NoAnswerError, OSError) as error:
                report.wrong.append(f"{name}: {error}")
                continue
            if answer is not None:
                say(f"{name}: {answer.status} {answer.body[:500]!r}")
                wrong = wrong_with(shot, answer, disturbed=False)
                report.wrong += [] if wrong is None else [f"{name}: {wrong}"]
        time.sleep(IDLE_S)
        report.wrong += [f"ended: {name} {code}" for name, code in fleet.ended().items()]
        say(fleet.tails())
    return report.wrong


def described(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(vars(report), indent=1)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run as a command; the folder stays when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--requests", type=int, default=10_000, help="hostile ones, for each store")
    parser.add_argument("--redis-values", type=int, default=250, help="for each store")
    parser.add_argument("--minutes", type=float, default=0.0, help="at least, over all stores")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--replay", type=Path, help="a file that a run has kept")
    asked = parser.parse_args()
    stores = asked.store or STORES
    wrong: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="rotulus-fuzz-"))
    try:
        for store in stores:
            own = folder / store
            own.mkdir()
            if asked.replay is not None:
                wrong += replay(own, asked.replay, store, _say)
                continue
            seconds = asked.minutes * 60 / len(stores)
            report = run(
                own,
                store,
                asked.seed,
                asked.requests,
                asked.redis_values,
                _say,
                seconds=seconds,
            )
            _say(described(report))
            wrong += report.wrong
    except BaseException:
        _say(f"seed {asked.seed}; kept: {folder}")
        raise
    if wrong:
        _say("\n".join(wrong))
        _say(f"seed {asked.seed}; kept: {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
