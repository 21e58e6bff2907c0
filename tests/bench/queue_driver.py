"""Measures one queue system in the interpreter that has it; prints one JSON object.

    python queue_driver.py SYSTEM PORT ITEMS < password

Workers are processes of this same file that count the jobs they ran in a shared file, so that
counting sends nothing to Redis. Where the system is not installed, the object says so.
"""

import asyncio
import contextlib
import json
import mmap
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.queue_systems import OWN, PEERS, System, payload

PICK_UPS = 100
IDLE_S = 6.0
FIRST_ITEMS = 20
"""Enqueued before it is measured: connections, scripts and routes are made at first use."""

WORK_S = 0.0005
"""CPU time of an item where it is not a no-op: most of what two workers do is then their own."""

ENQUEUE_ALONE = "BENCH_ENQUEUE_ALONE"
"""Set where no worker is to be measured."""

WORK_SHARE = 10
"""Of so many items one is enough to measure those."""

DRAIN_S_MAX = 20.0
_ROW = struct.Struct("<Q")
"""Jobs that a worker ran."""
_DELAYS_AT = 1024
_DELAY = struct.Struct("<d")
SYSTEMS = OWN | PEERS


class Counts:
    """What the workers of one measurement did."""

    def __init__(self, path: Path, worker: int | None = None) -> None:
        with path.open("r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 0)
        self.worker = worker
        self.done = 0

    def hit(self, item: dict[str, Any]) -> None:
        until_s = time.perf_counter() + item["work_s"]
        while item["work_s"] and time.perf_counter() < until_s:
            pass
        if item["sent_at"]:
            place = _DELAYS_AT + item["number"] * _DELAY.size
            _DELAY.pack_into(self.shared, place, time.time() - item["sent_at"])
        self.done += 1
        _ROW.pack_into(self.shared, self.worker * _ROW.size, self.done)

    def of_workers(self, workers: int) -> list[int]:
        return [_ROW.unpack_from(self.shared, at * _ROW.size)[0] for at in range(workers)]

    def delays_ms(self) -> list[float]:
        places = range(_DELAYS_AT, _DELAYS_AT + PICK_UPS * _DELAY.size, _DELAY.size)
        return [_DELAY.unpack_from(self.shared, place)[0] * 1000 for place in places]


class Info:
    """What the server says of itself, over a socket that needs no library."""

    def __init__(self, port: int, password: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")
        self.ask("AUTH", password)

    def ask(self, *words: str) -> str:
        parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
        self.socket.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
        line = self.file.readline().decode()
        if line.startswith("$"):
            return self.file.read(int(line[1:]) + 2).decode()
        return line

    def cpu_s(self) -> float:
        lines = self.ask("INFO", "cpu").split("\r\n")
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])

    def totals(self) -> tuple[int, int]:
        """Return how many requests came in and how many commands ran, scripts' own included."""
        lines = self.ask("INFO", "everything").split("\r\n")
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        calls = [
            int(value.split(",")[0].removeprefix("calls="))
            for name, value in facts.items()
            if name.startswith("cmdstat_") and not name.startswith("cmdstat_info")
        ]
        return int(facts["total_reads_processed"]), sum(calls)


@contextlib.contextmanager
def workers_of(name: str, port: int, password: str, count: int) -> Any:
    """Run worker processes and yield what they count."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "counts", Path(folder) / "said"
        path.write_bytes(bytes(_DELAYS_AT + PICK_UPS * _DELAY.size))
        processes = []
        for worker in range(count):
            command = [sys.executable, __file__, name, str(port), "0", str(path), str(worker)]
            with output.open("ab") as file:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file)
            process.stdin.write(password.encode())
            process.stdin.close()
            processes.append(process)
        try:
            yield Counts(path)
            if any(process.poll() is not None for process in processes):
                raise RuntimeError(f"a worker of {name} has ended: {output.read_text()[-2000:]}")
        finally:
            for process in processes:
                process.kill()
                process.wait()


async def enqueue_rate(system: System, items: int, way: str, work_s: float = 0.0) -> float:
    todo = [payload(number, work_s=work_s) for number in range(items)]
    started_s = time.perf_counter()
    if way == "bulk":
        for start in range(0, items, 100):
            await system.bulk(todo[start : start + 100])
    else:
        waiting = iter(todo)

        async def lane() -> None:
            for item in waiting:
                await system.put(item)

        await asyncio.gather(*[lane() for _ in range(100 if way == "concurrent" else 1)])
    return items / (time.perf_counter() - started_s)


async def drain(
    system: System, name: str, items: int, workers: int, info: Info, work_s: float = 0.0
) -> dict[str, float]:
    info.ask("FLUSHALL")
    before = info.totals()[1]
    way = "bulk" if system.bulk else "single" if system.blocking else "concurrent"
    await enqueue_rate(system, items, way, work_s)
    with workers_of(name, system.port, system.password, workers) as counts:
        started_s, at_start, limit_s = 0.0, 0, time.perf_counter() + DRAIN_S_MAX
        while time.perf_counter() < limit_s:
            done = counts.of_workers(workers)
            if not started_s and all(done):
                started_s, at_start = time.perf_counter(), sum(done)
            if sum(done) >= items:
                break
            await asyncio.sleep(0.002)
        seconds = time.perf_counter() - started_s
        ran = sum(counts.of_workers(workers)) - at_start
    commands = info.totals()[1] - before
    return {
        "rate": ran / seconds if started_s else 0.0,
        "commands": commands / max(1, ran + at_start),
    }


async def pick_up(system: System, name: str, info: Info) -> dict[str, float]:
    info.ask("FLUSHALL")
    with workers_of(name, system.port, system.password, 1) as counts:
        limit_s = time.perf_counter() + 20
        while not sum(counts.of_workers(1)) and time.perf_counter() < limit_s:
            await system.put(payload(0))
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        for number in range(PICK_UPS):
            await system.put(payload(number, time.time()))
            await asyncio.sleep(0.03)
        await asyncio.sleep(1.5)
        before = info.totals()[0]
        await asyncio.sleep(IDLE_S)
        requests = info.totals()[0] - before - 1
        delays_ms = sorted(delay for delay in counts.delays_ms() if delay)
    median_ms = statistics.median(delays_ms) if delays_ms else float("nan")
    return {
        "pick_up_ms": median_ms,
        "pick_up_p99_ms": delays_ms[int(len(delays_ms) * 0.99) - 1] if delays_ms else median_ms,
        "idle_requests_per_s": requests / IDLE_S,
    }


def cpu_of_all_s(system: System, info: Info) -> float:
    """CPU time so far of the client, of Redis and of what stands between both."""
    cpu_s = time.process_time() + info.cpu_s()
    if system.gateway_pid is not None:
        for path in Path(f"/proc/{system.gateway_pid}/task").glob("*/schedstat"):
            cpu_s += int(path.read_text().split()[0]) / 1e9
    return cpu_s


async def measure(name: str, port: int, password: str, items: int) -> dict[str, Any]:
    system = SYSTEMS[name](port, password)
    await system.open()
    info = Info(port, password)
    figures: dict[str, Any] = {}
    ways = ["single"]
    ways += [] if system.blocking else ["concurrent"]
    ways += ["bulk"] if system.bulk else []
    for way in ways:
        # To a gateway that is a lost Redis: it would send again all that is open.
        if system.gateway_pid is None:
            info.ask("FLUSHALL")
        await enqueue_rate(system, FIRST_ITEMS, way)
        before_s = cpu_of_all_s(system, info)
        figures[f"enqueue_{way}"] = await enqueue_rate(system, items // 4, way)
        spent_s = cpu_of_all_s(system, info) - before_s
        figures[f"enqueue_{way}_cpu_us"] = spent_s / (items // 4) * 1e6
    if not system.works or os.environ.get(ENQUEUE_ALONE):
        await system.close()
        return figures
    alone = await drain(system, name, items, 1, info)
    figures["drain_1"], figures["commands_per_item"] = alone["rate"], alone["commands"]
    figures["drain_2"] = (await drain(system, name, items * 2, 2, info))["rate"]
    few = items // WORK_SHARE
    for workers in (1, 2):
        busy = await drain(system, name, few * workers, workers, info, WORK_S)
        figures[f"busy_{workers}"] = busy["rate"]
    figures |= await pick_up(system, name, info)
    info.ask("FLUSHALL")
    await system.close()
    return figures


def main() -> None:
    name, port, items = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    password = sys.stdin.read()
    if len(sys.argv) > 4:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        SYSTEMS[name](port, password).work(Counts(Path(sys.argv[4]), int(sys.argv[5])).hit)
        return
    try:
        figures = asyncio.run(measure(name, port, password, items))
    except ImportError as error:
        figures = {"missing": str(error)}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
