"""What large bodies took goes back to the system."""

import subprocess
import sys

import pytest

BODIES = """
import json, random, sys, threading
from workers.environment.system_host import give_large_blocks_back

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
