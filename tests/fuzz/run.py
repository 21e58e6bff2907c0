"""Drives a fleet with hostile requests and hostile values in Redis, as a test or as `make fuzz`.

What must hold: no process ends, every answer is typed, legal work succeeds, `/healthz` answers
within 100 ms of the gateway's own time (where a busy machine leaves open whose time it was, one
question in a thousand within 300), no callback takes 50 ms of a loop's thread, the memory of a
gateway stays within twice its idle size (2 s after 200 legal requests) and 64 MiB (a body of the
largest size is 8 MiB, and takes a few times that while it is read), the record verifies.

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
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.connection import FuzzConnection, NoAnswerError
from tests.fuzz.course import IDLE_S, EndedError, FuzzCourse, Say
from tests.fuzz.fleet import GATEWAYS, STORES, running_fuzz_fleet
from tests.fuzz.judge import wrong_with
from tests.fuzz.report import FuzzReport, described
from tests.fuzz.shot import Shot


def run(
    folder: Path,
    store: str,
    seed: int,
    requests: int,
    redis_values: int,
    say: Say,
    *,
    seconds: float = 0.0,
) -> FuzzReport:
    """Run everything on one store; the folder keeps what was said and what was answered wrongly."""
    report, began_s = FuzzReport(store, seed), time.monotonic()
    say(
        f"{store}: seed {seed}; {requests} hostile requests, {redis_values} hostile values in Redis"
    )
    with running_fuzz_fleet(folder, store) as fleet:
        course = FuzzCourse(fleet, report, say)
        try:
            with course.phase("begin"):
                course.begin()
            with course.phase("attack"):
                course.attack(requests, redis_values, seconds)
            with course.phase("judge"):
                course.judge()
        except EndedError:
            say(fleet.tails())
        finally:
            course.close()
        for name, process in fleet.processes.items():
            tracebacks = process.log.read_text(errors="replace").count("Traceback (most recent")
            if tracebacks:
                report.wrong.append(f"{name} logged {tracebacks} tracebacks: {process.log}")
    report.seconds = round(time.monotonic() - began_s, 1)
    return report


def replay(folder: Path, file: Path, store: str, say: Say) -> list[str]:
    """Send the bytes of one problem to a new fleet, and return what is wrong with the answers."""
    problem = json.loads(file.read_text())
    content = base64.b64decode(problem["content"])
    shot = Shot(problem["route"], problem["how"], problem["manner"], content, problem["answers"])
    with running_fuzz_fleet(folder, store) as fleet:
        report = FuzzReport(store, problem["seed"])
        course = FuzzCourse(fleet, report, say)
        course.begin()
        course.close()
        for name in GATEWAYS:
            connection = FuzzConnection(fleet.ports[name])
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
    options = parser.parse_args()
    stores = options.store or STORES
    wrong: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="rotulus-fuzz-"))
    try:
        for store in stores:
            own = folder / store
            own.mkdir()
            if options.replay is not None:
                wrong += replay(own, options.replay, store, _say)
                continue
            seconds = options.minutes * 60 / len(stores)
            report = run(
                own,
                store,
                options.seed,
                options.requests,
                options.redis_values,
                _say,
                seconds=seconds,
            )
            _say(described(report))
            wrong += report.wrong
    except BaseException:
        _say(f"seed {options.seed}; kept: {folder}")
        raise
    if wrong:
        _say("\n".join(wrong))
        _say(f"seed {options.seed}; kept: {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
