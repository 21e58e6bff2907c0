"""How a benchmark measures and prints: a rate, and its ratio to a peer of the same run."""

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from os import cpu_count, getloadavg
from pathlib import Path

import orjson


def rate_per_s(run: Callable[[], int], *, repeat: int = 3) -> float:
    """Return the best rate of `repeat` runs; `run` returns how many things it did."""
    best = 0.0
    for _ in range(repeat):
        started = time.perf_counter()
        done = run()
        best = max(best, done / (time.perf_counter() - started))
    return best


def figure(name: str, value: float, unit: str, *, ratio: float | None = None, of: str = "") -> None:
    """Print one figure, as a JSON line when the command was given --json."""
    if "--json" in sys.argv:
        row = {"figure": name, "value": value, "unit": unit, "ratio": ratio, "ratio_of": of}
        sys.stdout.write(orjson.dumps(row).decode() + "\n")
        return
    shown = f"{value:>14,.0f} {unit:<8}" if value >= 10 else f"{value:>14,.3f} {unit:<8}"
    tail = f"  {ratio:6.2f} x {of}" if ratio is not None else ""
    sys.stdout.write(f"{name:<58}{shown}{tail}\n")


def note(text: str) -> None:
    """Print what a reader of the figures has to know."""
    row = orjson.dumps({"note": text}).decode() if "--json" in sys.argv else text
    sys.stdout.write(row + "\n")


def machine(**settings: object) -> None:
    """Print where, of what and how the figures that follow are taken."""
    facts = {
        "cpu": _cpu_model(),
        "cores": cpu_count(),
        "load": round(getloadavg()[0], 1),
        "python": platform.python_version(),
        "commit": _commit(),
        **settings,
    }
    if "--json" in sys.argv:
        sys.stdout.write(orjson.dumps({"machine": facts}).decode() + "\n")
        return
    for name, value in facts.items():
        sys.stdout.write(f"{name:<24}{value}\n")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
