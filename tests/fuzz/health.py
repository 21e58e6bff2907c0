"""Asks gateways whether they are alive, again and again; a process of its own.

How long an answer takes on a machine that is busy says little of a gateway. So each question is
judged by the time that was the gateway's own: what the machine let it (or the asker) wait for a
processor, as the kernel of the machine counts it, is taken off. A loop that is held is found all
the same, whether it computes, sleeps or waits for a lock.
"""

import json
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

LIMIT_S: Final = 0.1
"""Within which every answer comes, of the time that is the gateway's own for certain, and all but
one in a thousand of the time that may be its own."""

LONGEST_S: Final = 0.3
"""Within which every answer comes, of the time that may be its own."""

EACH_S: Final = 0.05
ANSWER_S: Final = 30.0
KEPT_MAX: Final = 5
_REQUEST: Final = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """One question after health."""

    own_s: float
    """What of the time may have been the gateway's own."""

    certain_s: float
    """What of it was its own for certain."""

    elapsed_s: float
    at_s: float
    """Since the first question."""

    status: int
    """0 where there was no answer."""


def waited_s(pid: int) -> dict[str, float]:
    """Return how long each thread of a process has waited for a processor so far."""
    by_thread = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):
            by_thread[path.parent.name] = int(path.read_text().split()[1]) / 1e9
    return by_thread


def machine_s(pid: int, before: dict[str, float], after: dict[str, float]) -> tuple[float, float]:
    """Return how long at least, and at most, the machine let a process wait that has one loop.

    Its main thread may wait itself, or wait for the interpreter that others hold who wait: for that
    of one, or of all in turn.
    """
    by_thread = {name: after[name] - before.get(name, 0.0) for name in after}
    loop = by_thread.pop(str(pid), 0.0)
    return loop + max(by_thread.values(), default=0.0), loop + sum(by_thread.values())


class HealthProbe(threading.Thread):
    """Asks one gateway until it is told to stop."""

    def __init__(self, name: str, port: int, pid: int) -> None:
        super().__init__(name=name, daemon=True)
        self._port, self._pid = port, pid
        self.stopped = threading.Event()
        self.asked = 0
        self.late = self.late_for_certain = 0
        self.worst: list[Question] = []
        self.unanswered = 0

    def run(self) -> None:
        began_s = time.monotonic()
        while not self.stopped.wait(EACH_S):
            question = self.ask(began_s)
            self.asked += 1
            self.unanswered += question.status != 200
            self.late += question.own_s > LIMIT_S
            self.late_for_certain += question.certain_s > LIMIT_S
            self.worst = sorted([*self.worst, question], reverse=True)[:KEPT_MAX]

    def ask(self, began_s: float) -> Question:
        me = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        theirs, mine = waited_s(self._pid), int(me.read_text().split()[1])
        at_s = time.monotonic()
        status = 0
        try:
            with socket.create_connection(("127.0.0.1", self._port), ANSWER_S) as connection:
                connection.sendall(_REQUEST)
                status = int(connection.recv(1024).split()[1])
        except (OSError, IndexError, ValueError):
            status = 0
        elapsed_s = time.monotonic() - at_s
        asker_s = (int(me.read_text().split()[1]) - mine) / 1e9
        own_s, certain_s = (
            max(0.0, elapsed_s - asker_s - machine)
            for machine in machine_s(self._pid, theirs, waited_s(self._pid))
        )
        return Question(own_s, certain_s, elapsed_s, at_s - began_s, status)

    def summary(self) -> dict[str, Any]:
        """Return what was met."""
        return {
            "asked": self.asked,
            "unanswered": self.unanswered,
            "late": self.late,
            "late_for_certain": self.late_for_certain,
            "worst": [asdict(answer) for answer in self.worst],
        }


def main() -> None:
    """Read who is to be asked (name to port and pid), ask until the input ends, tell of it."""
    askers = [HealthProbe(name, *place) for name, place in json.loads(sys.stdin.readline()).items()]
    for asker in askers:
        asker.start()
    sys.stdin.read()
    for asker in askers:
        asker.stopped.set()
        asker.join(ANSWER_S)
    sys.stdout.write(json.dumps({asker.name: asker.summary() for asker in askers}) + "\n")


if __name__ == "__main__":
    main()
