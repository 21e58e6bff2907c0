"""A process whose loop stands still ends, and says where it stands (decision workers/0450)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType

import pytest

PROGRAM = """
import sys, time
import anyio
from workers.environment import loop_watch
from workers.environment.foreign_calls import await_foreign
from workers.environment.log_setup import configure_logging
from workers.environment.loop_watch import watch_loop

configure_logging("info", "json")
loop_watch.EVERY_S, loop_watch.LOCK_GRACE_S = 0.1, 4.0


async def main():
    with watch_loop(1.0):
        {body}
    print("went on")


anyio.run(main)
"""
BODIES: Mapping[str, str] = MappingProxyType(
    {
        "a handler blocks": """
        async def handler():
            time.sleep(600)
        await await_foreign("the handler of parcels for p-1", handler)
""",
        "an import blocks": """
        open("blocks.py", "w").write("import time\\ntime.sleep(600)  # of the plug-in")
        sys.path.insert(0, "")
        import blocks
""",
        "a call keeps the lock": """
        import re
        re.match("(a+)+$", "a" * 60 + "b")  # for ever, and nobody else runs
""",
        "it goes on": """
        await anyio.sleep(1.5)
""",
        "it is stopped": """
        print("stop me", flush=True)
        await anyio.sleep(0.5)
""",
    }
)
SAID = {
    "a handler blocks": ['"reason":"loop_blocked"', "the handler of parcels", "in handler"],
    "an import blocks": ['"reason":"loop_blocked"', "# of the plug-in"],
    "a call keeps the lock": ["Timeout (0:00:05)!", "re/__init__.py"],
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run all programs at once; they take about six seconds."""
    folder = tmp_path_factory.mktemp("loops")
    path = os.pathsep.join(sys.path)
    running = {
        name: subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("{body}", body.strip())],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, body in BODIES.items()
    }
    stopped = running["it is stopped"]
    assert stopped.stdout is not None
    assert next(stopped.stdout) == "stop me\n"
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # longer than the loop may stand still, and less than the lock may be kept
    stopped.send_signal(signal.SIGCONT)
    return {
        name: subprocess.CompletedProcess(name, process.wait(60), process.communicate()[0])
        for name, process in running.items()
    }


@pytest.mark.parametrize("name", SAID)
def test_what_keeps_the_loop_ends_its_process_with_the_place(ended, name: str):
    assert ended[name].returncode == 1
    for words in SAID[name]:
        assert words in ended[name].stdout
    assert "went on" not in ended[name].stdout


@pytest.mark.parametrize("name", sorted(BODIES.keys() - SAID.keys()))
def test_a_loop_that_turns_and_a_process_that_was_stopped_go_on(ended, name: str):
    assert (ended[name].returncode, ended[name].stdout.strip()[-7:]) == (0, "went on")
