"""Sends requests to the gateways of a fleet and judges every answer; a process of its own.

Its input is a line for each `Plan`; its output is lines of JSON: a problem each, and a summary when
a plan is done.
Prepared bytes over plain sockets in a few threads, because an ordinary client is slower than what
it should attack.
"""

import base64
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.connection import ANSWER_S, FuzzConnection, NoAnswerError
from tests.fuzz.hostile import hostile_shot, legal_shot
from tests.fuzz.judge import Answer, wrong_with
from tests.fuzz.legal import legal_request, shared_records
from tests.fuzz.shot import Shot

RAW_S: Final = 0.2
"""How long what need not be answered may wait for an answer."""

LEGAL_EACH: Final = 5
AGAIN_S: Final = 120.0
"""How long a legal request is asked again while it is told to come later."""

PAUSE_S_MAX: Final = 1.0
PROBLEMS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, and where."""

    ports: Sequence[int]
    seed: int
    first: int
    """Number of the first hostile request."""

    hostile: int
    lanes: int = 24
    disturbed: bool = False
    begin: bool = False
    """Whether to ask first for what later requests go to; then nothing hostile is sent."""

    legal: int = 0
    """Legal requests beside; with `begin` they follow it."""


@dataclass
class Tally:
    """What was answered."""

    statuses: Counter[str] = field(default_factory=Counter)
    hostile: int = 0
    legal: int = 0
    asked_again: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    """What need not be answered, and was not."""

    sent_bytes: int = 0
    problems: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    slowest: list[tuple[float, str]] = field(default_factory=list)


class Lane:
    """One thread: a connection to each gateway, a request at a time."""

    def __init__(self, sender: "Sender") -> None:
        self._sender = sender
        self._kept: dict[int, FuzzConnection] = {}

    def run(self) -> None:
        """Send until nothing is left."""
        for number, shot in self._sender.shots():
            port = self._sender.port_of(number)
            try:
                self._send(number, shot, port)
            except NoAnswerError as error:
                self._sender.problem(number, shot, port, str(error))
            except TimeoutError:
                self._sender.problem(number, shot, port, f"no answer within {ANSWER_S:g} s")
            except OSError as error:
                self._sender.problem(number, shot, port, f"no connection: {error}")
                time.sleep(0.1)
        for connection in self._kept.values():
            connection.close()

    def _send(self, number: int, shot: Shot, port: int) -> None:
        tally = self._sender.tally
        tally.sent_bytes += len(shot.content)
        if shot.manner == "cut":
            connection = FuzzConnection(port)
            connection.send(shot.content)
            connection.close()
            tally.unanswered += 1
        elif shot.manner == "ask":
            self._ask(number, shot, port)
        else:
            self._raw(number, shot, port)

    def _raw(self, number: int, shot: Shot, port: int) -> None:
        connection = FuzzConnection(port)
        connection.send(shot.content)
        answers = 0
        must = shot.answers if shot.manner == "pipeline" else 0
        try:
            while answers < shot.answers or not must:
                connection.patience(ANSWER_S if answers < must else RAW_S)
                answer = connection.answer(head_only=shot.head_only)
                if answer is None:
                    break
                answers += 1
                self._judge(number, shot, port, answer)
                if not connection.open or answers > 8:
                    break
        except TimeoutError:
            if answers < must:
                raise
        except NoAnswerError:
            # A method that was taken for HEAD, or the reverse, has no end that can be known.
            if not shot.how.startswith("method"):
                raise
        finally:
            connection.close()
        if not answers:
            self._sender.tally.unanswered += 1

    def _ask(self, number: int, shot: Shot, port: int) -> None:
        until_s = time.monotonic() + AGAIN_S
        while True:
            began_s = time.monotonic()
            answer = self._answered(shot, port)
            self._sender.took(time.monotonic() - began_s, shot)
            self._judge(number, shot, port, answer)
            if not shot.legal or answer.status not in (429, 503):
                return
            self._sender.tally.asked_again[answer.code] += 1
            if time.monotonic() > until_s:
                raise NoAnswerError(
                    f"legal, and told to come later for {AGAIN_S:g} s: {answer.code}"
                )
            time.sleep(min(PAUSE_S_MAX, float(answer.headers.get("retry-after", "1"))))

    def _answered(self, shot: Shot, port: int) -> Answer:
        while True:
            connection = self._kept.get(port)
            if connection is None or not connection.open:
                connection = self._kept[port] = FuzzConnection(port)
            used = connection.used
            try:
                connection.patience(ANSWER_S)
                connection.send(shot.content)
                answer = connection.answer(head_only=shot.head_only)
            except (NoAnswerError, OSError):
                connection.close()
                raise
            if answer is not None and not connection.left_over:
                return answer
            connection.close()
            if connection.left_over:
                raise NoAnswerError(f"more than an answer: {connection.left_over[:80]!a}")
            if not used:
                raise NoAnswerError("the connection was closed without an answer")
            # It had been kept for too long; on a new one it is asked again.

    def _judge(self, number: int, shot: Shot, port: int, answer: Answer) -> None:
        self._sender.count(answer)
        wrong = wrong_with(shot, answer, disturbed=self._sender.plan.disturbed)
        if wrong is not None:
            self._sender.problem(number, shot, port, wrong, answer)


class Sender:
    """All lanes of a plan, and what they met."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tally = Tally()
        self._lock = threading.Lock()
        self._all = self._numbered()

    def run(self) -> Tally:
        """Send everything and return what was answered."""
        began_s, used_s = time.monotonic(), time.process_time()
        lanes = [
            threading.Thread(target=Lane(self).run, daemon=True)
            for _ in range(1 if self.plan.begin else self.plan.lanes)
        ]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        self.tally.seconds = round(time.monotonic() - began_s, 1)
        self.tally.cpu_s = time.process_time() - used_s
        return self.tally

    def shots(self) -> Iterator[tuple[int, Shot]]:
        """Return what is left, a lane's turn at a time."""
        while True:
            with self._lock:
                number, shot = next(self._all, (0, None))
            if shot is None:
                return
            yield number, shot

    def port_of(self, number: int) -> int:
        """Return the gateway of a request; any other is as likely."""
        return self.plan.ports[(number * 2_654_435_761 >> 7) % len(self.plan.ports)]

    def count(self, answer: Answer) -> None:
        with self._lock:
            self.tally.statuses[f"{answer.status} {answer.code}".strip()] += 1

    def took(self, seconds: float, shot: Shot) -> None:
        with self._lock:
            slowest = [*self.tally.slowest, (round(seconds, 2), f"{shot.route}: {shot.how}")]
            self.tally.slowest = sorted(slowest, reverse=True)[:5]

    def problem(
        self, number: int, shot: Shot, port: int, wrong: str, answer: Answer | None = None
    ) -> None:
        """Tell of a request whose answer is wrong, with its bytes."""
        with self._lock:
            self.tally.problems += 1
            if self.tally.problems > PROBLEMS_MAX:
                return
            problem: dict[str, Any] = {
                "wrong": wrong,
                "route": shot.route,
                "how": shot.how,
                "seed": self.plan.seed,
                "number": number,
                "gateway": list(self.plan.ports).index(port),
                "manner": shot.manner,
                "answers": shot.answers,
                "content": base64.b64encode(shot.content).decode(),
            }
            if answer is not None:
                problem |= {"status": answer.status, "body": answer.body[:2000].decode("latin-1")}
            _say({"problem": problem})

    def _numbered(self) -> Iterator[tuple[int, Shot]]:
        plan = self.plan
        if plan.begin:
            for number, request in enumerate(shared_records()):
                self.tally.legal += 1
                yield number, legal_shot(request)
        for number in range(plan.first, plan.first + plan.hostile):
            self.tally.hostile += 1
            yield number, hostile_shot(plan.seed, number)
            if number % LEGAL_EACH == 0:
                self.tally.legal += 1
                yield number, legal_shot(legal_request(plan.seed, number))
        for number in range(plan.legal):
            self.tally.legal += 1
            yield number, legal_shot(legal_request(plan.seed, -1 - number))


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read a plan a line, send what it says, tell of it."""
    for line in sys.stdin:
        _say({"tally": vars(Sender(Plan(**json.loads(line))).run())})


if __name__ == "__main__":
    main()
