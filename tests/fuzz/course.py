"""One run on one store: asked for, warmed up, attacked, judged."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Final

import anyio

from actors.sharding.shard_keeper import BEATS_IN_A_LEASE
from kernel.ledger.ledger import Ledger
from tests.fuzz.client import Plan
from tests.fuzz.fleet import GATEWAYS, LEASE_S, FuzzFleet
from tests.fuzz.legal_request import QUEUES
from tests.fuzz.legal_work import dead_legal_work, open_legal_work, outcomes_by_queue
from tests.fuzz.report import (
    MEBIBYTE,
    FuzzReport,
    wrong_with_health,
    wrong_with_loops,
    wrong_with_memory,
)
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import open_store
from workers.environment.ledger_verification import verify_file
from workers.environment.system_host import system_host

WARM_UP: Final = 200
"""Legal requests after which a gateway has its idle size."""
IDLE_S: Final = 2.0
ROUND: Final = 2000
"""Hostile requests between two looks at how it stands, and of which a fifth meets a Redis that is
being attacked as well."""
DISTURBED: Final = 5
STILL_S: Final = 180.0
"""A queue that has legal work and ends nothing for so long stands still."""
DRAIN_LOOK_S: Final = 1.0
STACK_CHARS: Final = 1500
RECOVER_S: Final = 60.0
NOTICED_S: Final = LEASE_S / BEATS_IN_A_LEASE + 1
"""Within it each gateway has beaten, and so has noticed what was taken from Redis."""
LOOK_S: Final = 0.1
ENDS: Final = frozenset({0, -signal.SIGTERM})
"""How a process ends that was asked to; a server lets the signal end it once it is done."""

Say = Callable[[str], None]


class EndedError(Exception):
    """A process of the fleet has ended."""


class FuzzCourse:
    """One run on one store."""

    def __init__(self, fleet: FuzzFleet, report: FuzzReport, say: Say) -> None:
        self.fleet, self.report, self.say = fleet, report, say
        self.most: Counter[str] = Counter()
        self._sender: subprocess.Popen[str] | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long a part of the run takes."""
        began_s = time.monotonic()
        yield
        self.report.phases_s[name] = round(time.monotonic() - began_s, 1)

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
        first, used_s = 0, self.fleet.cpu_s()
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
                self.report.cpu_s = {
                    name: round(now_s - used_s[name], 1)
                    for name, now_s in self.fleet.cpu_s().items()
                }
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
        time.sleep(NOTICED_S)
        self.recovered()

    def recovered(self) -> None:
        """Wait until every gateway is ready again, and every shard has an owner.

        A gateway that only Redis names is given shards until its lease has ended.
        """
        try:
            wait_for(
                "the fleet to serve every shard after Redis was attacked",
                lambda: bool(self.fleet.ended()) or self.fleet.serves_all(),
                RECOVER_S,
            )
        except AssertionError as error:
            bodies = {gateway: self.fleet.readiness(gateway) for gateway in GATEWAYS}
            self.report.wrong.append(f"{error}: {bodies}")

    def send(self, plan: Plan) -> None:
        """Let the process that sends do so, until it has or until one of the fleet ended."""
        sender = self._sender = self._sender or _sending_process()
        assert sender.stdin is not None
        assert sender.stdout is not None
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(sender, over), daemon=True)
        watch.start()
        sender.stdin.write(json.dumps(asdict(plan)) + "\n")
        sender.stdin.flush()
        for line in sender.stdout:
            if self._hear(json.loads(line)):
                break
        over.set()
        watch.join()
        self.ended()

    def close(self) -> None:
        """Let the process end that sends."""
        if self._sender is not None:
            self._sender.communicate()
            self._sender = None

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

    def _hear(self, line: dict[str, Any]) -> bool:
        """Take note of what the sender says; return whether it is done."""
        report = self.report
        if "tally" in line:
            tally = line["tally"]
            report.hostile += tally["hostile"]
            report.legal += tally["legal"]
            report.sent_mib = round(report.sent_mib + tally["sent_bytes"] / MEBIBYTE, 1)
            report.statuses.update(tally["statuses"])
            report.asked_again.update(tally["asked_again"])
            report.slowest = sorted([*report.slowest, *tally["slowest"]], reverse=True)[:5]
            report.sender_cpu_s = round(report.sender_cpu_s + tally["cpu_s"], 1)
            return True
        problem = line["problem"]
        path = self.fleet.folder / f"problem-{len(report.wrong)}.json"
        path.write_text(json.dumps(problem, indent=1))
        report.wrong.append(
            f"{problem['wrong']}: {problem['route']}, {problem['how']}; --replay {path}"
        )
        self.say(report.wrong[-1])
        return False

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
            output, _ = asking.communicate(timeout=120)
            self.report.health = json.loads(output)

    def judge(self) -> None:
        """Let everything drain and end, and say what is wrong with what is left."""
        report = self.report
        report.rss_idle_mib = {name: size // MEBIBYTE for name, size in self.idle.items()}
        report.rss_most_mib = {name: size // MEBIBYTE for name, size in self.most.items()}
        report.wrong += wrong_with_memory(self.idle, self.most)
        report.wrong += wrong_with_health(report.health)
        held = {
            name: [stall for stall in stalls if stall not in self.before[name]]
            for name, stalls in self.fleet.stalls().items()
        }
        report.stalls = {
            name: [str(stall)[:STACK_CHARS] for stall in stalls[:5]]
            for name, stalls in held.items()
        }
        report.wrong += wrong_with_loops(held)
        for queue in QUEUES:
            for priority in (None, "critical"):
                self.fleet.post("a", f"/v1/queues/{queue}/resume", {"priority": priority})
        ledger = Ledger(open_store(self.fleet.place, read_only=True), system_host())
        with self.phase("drain"):
            report.wrong += self.drained(ledger)
        report.wrong += [f"legal, and given up: {name}" for name in dead_legal_work(ledger)]
        ledger.close()
        self.ended()
        ends = self.fleet.end()
        report.wrong += [
            f"{name} ended with {code}" for name, code in ends.items() if code not in ENDS
        ]
        verification = verify_file(self.fleet.place, lambda _done, _total: None)
        report.log_rows = verification.rows
        report.wrong += [f"the record: {finding}" for finding in verification.findings]

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


def _sending_process() -> subprocess.Popen[str]:
    """Start what sends one plan after another; starting it takes a second."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.client"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
