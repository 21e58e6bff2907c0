"""How a benchmark measures and prints: a rate, and its ratio to a peer of the same run."""

import sys
import time
from collections.abc import Callable

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
