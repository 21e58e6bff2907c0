"""What large bodies took goes back to the system."""

import subprocess
import sys

import pytest

BODIES = """
import json, random, sys, threading
from workers.environment.memory import give_large_blocks_back

if sys.argv[1] == "given back":
    give_large_blocks_back()

def read(seed):
    chance, kept = random.Random(seed), []
    for _ in range(40):
        json.loads(b'["' + b"a" * chance.randrange(1 << 16, 4 << 20) + b'"]')
        kept.append("x" * chance.randrange(100, 3000))

threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(int(open("/proc/self/statm").read().split()[1]) * 4)
"""
"""Prints how many KiB a process holds after its threads have read bodies and let them go."""


def held_kib(how: str) -> int:
    command = [sys.executable, "-c", BODIES, how]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
def test_what_bodies_took_is_given_back_by_every_thread():
    assert held_kib("given back") < held_kib("kept") / 2


PIECES = """
import anyio
from workers.environment import memory

def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4

blocks = [b"x" * size for size in [2000] * 100_000]
kept = blocks[::100]
del blocks
before = held()

async def trim():
    memory.TRIM_EVERY_S = 0.01
    with anyio.move_on_after(1.0):
        await memory.keep_trimming()

anyio.run(trim)
print(before, held())
"""
"""Prints how many KiB a process holds that gave up most of many small blocks: before and after."""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
def test_what_lies_free_between_small_blocks_is_given_back():
    command = [sys.executable, "-c", PIECES]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    before, after = map(int, output.split())
    assert after < before / 2
