import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import anyio
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tests.wall_clock import hold_at_night
from workers.process_tree import supervisor as supervisor_module
from workers.process_tree.child_process import PUMP_END_S, ChildSpec, ServiceSpec
from workers.process_tree.supervisor import (
    ALIKE_SAID,
    STOP_TOTAL_S,
    ChildDiedTooOftenError,
    ChildNotReadyError,
    RestartPolicy,
    StartInterruptedError,
    Supervisor,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
SLEEP = "import time; time.sleep(60)"
BUSY_S = 5.0
"""What a busy machine may add; who ignores the signal stays for longer than a test may take."""

IGNORE_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
QUICK = RestartPolicy(first_s=0.01, pause_max_s=0.02, deaths_max=3, window_s=60.0)


def child(name: str, code: str = SLEEP, **fields) -> ChildSpec:
    return ChildSpec(name, [sys.executable, "-c", code], **fields)


class Lines(list):
    """Collects what the children write; called from their pumps."""

    def __call__(self, line: bytes) -> None:
        self.append(line)


async def until(condition, timeout_s: float = 10.0) -> None:
    with anyio.fail_after(timeout_s):
        while not condition():
            await anyio.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# Starting and stopping


async def test_children_start_in_order_each_after_the_one_before_is_ready():
    order = []

    def argv(name):
        order.append(f"start {name}")
        return [sys.executable, "-c", SLEEP]

    async def ready(name):
        order.append(f"ready {name}")
        return order.count(f"ready {name}") == 2

    specs = [
        ChildSpec(name, lambda name=name: argv(name), ready=lambda name=name: ready(name))
        for name in ("a", "b")
    ]
    async with Supervisor(specs) as tree:
        assert list(tree.pids()) == ["a", "b"]
    assert order == ["start a", "ready a", "ready a", "start b", "ready b", "ready b"]


@pytest.fixture
def patient(monkeypatch):
    """Give children that end by themselves the time for it that a busy machine needs."""
    monkeypatch.setattr(supervisor_module, "STOP_TOTAL_S", 60.0)


async def test_children_stop_in_reverse_order_and_are_reaped(tmp_path, patient):
    code = textwrap.dedent("""
        import signal, sys, time
        def end(*_):
            time.sleep(0.05)
            with open(sys.argv[1], "a") as file: file.write(sys.argv[2])
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        print("up", flush=True)
        time.sleep(60)
    """)
    out, lines = tmp_path / "order", Lines()
    specs = [ChildSpec(name, [sys.executable, "-c", code, str(out), name]) for name in "abc"]
    async with Supervisor(specs, sink=lines) as tree:
        await until(lambda: len(lines) == 3)
        pids = tree.pids().values()
    assert out.read_text() == "cba"
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - returns at once
    assert tree.pids() == {}


async def test_children_that_ignore_sigterm_are_gone_within_the_bound():
    lines = Lines()
    async with Supervisor([child(n, IGNORE_SIGTERM) for n in "abc"], sink=lines) as tree:
        await until(lambda: len(lines) == 3)
        pids = list(tree.pids().values())
        began_s = time.monotonic()
    hold_at_night(time.monotonic() - began_s, STOP_TOTAL_S + BUSY_S)
    assert not any(runs(pid) for pid in pids)


async def test_a_slow_child_does_not_use_up_the_time_of_the_ones_before_it(monkeypatch):
    total_s = 3 * STOP_TOTAL_S
    monkeypatch.setattr(supervisor_module, "STOP_TOTAL_S", total_s)
    lines = Lines()
    code = textwrap.dedent("""
        import signal, time
        signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.2), print("finished", flush=True)))
        print("up", flush=True)
        signal.pause()
    """)
    specs = [child("tidy", code), child("slow", IGNORE_SIGTERM, grace_s=60.0)]
    async with Supervisor(specs, sink=lines):
        await until(lambda: len(lines) == 2)
        began_s = time.monotonic()
    hold_at_night(time.monotonic() - began_s, total_s + BUSY_S)
    await until(lambda: b"finished\n" in lines)


async def test_a_suspended_child_is_stopped_too():
    async with Supervisor([child("a", grace_s=0.1)]) as tree:
        pid = tree.pids()["a"]
        os.kill(pid, signal.SIGSTOP)
    assert not runs(pid)


async def test_a_child_gets_its_own_stop_signal_in_its_own_session(patient):
    lines = Lines()
    code = textwrap.dedent("""
        import os, signal, sys, time
        signal.signal(signal.SIGINT, lambda *_: (print("interrupted", flush=True), os._exit(0)))
        print(os.getsid(0) == os.getpid(), flush=True)
        time.sleep(60)
    """)
    async with Supervisor([child("a", code, stop_signal=signal.SIGINT)], sink=lines):
        await until(lambda: len(lines) == 1)
    await until(lambda: len(lines) == 2)
    assert lines == [b"True\n", b"interrupted\n"]


async def test_cancellation_stops_the_children():
    with anyio.CancelScope() as scope:
        async with Supervisor([child("a"), child("b")]) as tree:
            pids = list(tree.pids().values())
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(pids) == 2
    assert not any(runs(pid) for pid in pids)


async def test_an_error_of_the_block_arrives_as_it_is():
    pids = []

    async def fail_inside():
        async with Supervisor([child("a")]) as tree:
            pids.append(tree.pids()["a"])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail_inside()
    assert not runs(pids[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_block_and_says_which_it_was(number):
    async with Supervisor([child("a")]) as tree:
        pid = tree.pids()["a"]
        os.kill(os.getpid(), number)
        await anyio.sleep_forever()
    assert tree.stopped_by == number
    assert not runs(pid)


async def test_a_signal_before_the_tree_stands_interrupts_the_start():
    async def never():
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(StartInterruptedError, match=r"start_interrupted: .*SIGINT"):
        async with Supervisor([child("a", ready=never)]):
            pytest.fail("the block must not run")


async def test_two_children_cannot_share_a_name():
    with pytest.raises(ValueError, match="child_name_twice"):
        Supervisor([child("a"), child("a")])


# Failing to start


async def test_a_child_that_is_not_ready_in_time_fails_the_start_and_stops_the_others():
    pids = {}
    lines = Lines()
    # A shell, because Python may need longer than this to start on a busy machine.
    argv = ("sh", "-c", "echo still loading; exec sleep 60")

    async def never():
        await until(lambda: lines)
        pids.update(tree.pids())
        return False

    specs = [child("first"), ChildSpec("slow", argv, ready=never)]
    tree = Supervisor(specs, ready_timeout_s=3.0, sink=lines)
    with pytest.raises(ChildNotReadyError, match="slow: not ready within 3 s") as caught:
        async with tree:
            pytest.fail("the block must not run")
    assert caught.value.last_lines == ["still loading"]
    assert list(pids) == ["first", "slow"]
    assert not any(runs(pid) for pid in pids.values())


async def test_a_probe_that_raises_or_hangs_counts_as_not_ready():
    answers = iter(["raise", "hang", "yes"])

    async def ready():
        answer = next(answers)
        if answer == "raise":
            raise ConnectionRefusedError
        if answer == "hang":
            await anyio.sleep_forever()
        return True

    async with Supervisor([child("a", ready=ready)]) as tree:
        assert next(answers, None) is None
        assert "a" in tree.pids()


async def test_a_child_that_dies_before_it_is_ready_fails_the_start_with_its_last_lines():
    async def never():
        return False

    code = "import sys; sys.exit('port is taken')"
    with pytest.raises(ChildNotReadyError) as caught:
        async with Supervisor([child("gateway", code, ready=never)], sink=Lines()):
            pytest.fail("the block must not run")
    assert str(caught.value) == (
        "child_not_ready: gateway: died before it was ready: exit code 1\n  | port is taken"
    )


async def test_a_program_that_does_not_exist_fails_the_start():
    with pytest.raises(ChildNotReadyError, match="cannot be started: FileNotFoundError"):
        async with Supervisor([ChildSpec("a", ["/nonexistent"])]):
            pytest.fail("the block must not run")


# Dying and restarting


async def until_failed(tree: Supervisor, once_it_stands) -> None:
    async with tree:
        once_it_stands()
        await anyio.sleep_forever()


async def test_a_killed_child_is_started_again_with_fresh_arguments_and_the_rest_stays():
    starts = []

    def argv():
        starts.append(len(starts))
        return [sys.executable, "-c", SLEEP, str(len(starts))]

    with structlog.testing.capture_logs() as events:
        async with Supervisor([child("other"), ChildSpec("a", argv)], policy=QUICK) as tree:
            before = tree.pids()
            os.kill(before["a"], signal.SIGKILL)
            await until(lambda: tree.pids().get("a", before["a"]) != before["a"])
            await until(lambda: events[-1]["event"] == "child_restarted")
            after = tree.pids()
            assert runs(after["a"])
    assert after["other"] == before["other"]
    assert starts == [0, 1]
    died = next(event for event in events if event["event"] == "child_died")
    assert (died["name"], died["reason"]) == ("a", "killed by SIGKILL")
    names = [event["event"] for event in events]
    assert names == [
        "child_started",
        "child_started",
        "child_died",
        "child_started",
        "child_restarted",
    ]


async def test_a_child_that_dies_too_often_fails_the_tree_with_its_last_lines():
    code = "import sys; print('one'); sys.exit('two')"
    tree = Supervisor([child("w"), child("bad", code)], policy=QUICK, sink=Lines())
    pids = []
    with pytest.raises(ChildDiedTooOftenError) as caught:
        await until_failed(tree, lambda: pids.append(tree.pids()["w"]))
    assert caught.value.child == "bad"
    assert "died more than 3 times in 60 s, last: exit code 1" in str(caught.value)
    assert sorted(caught.value.last_lines) == ["one", "two"]
    assert not runs(pids[0])


async def test_a_restart_that_does_not_get_ready_counts_as_a_death():
    starts = []

    def argv():
        starts.append(None)
        return [sys.executable, "-c", SLEEP]

    async def ready():
        return len(starts) == 1

    tree = Supervisor([ChildSpec("a", argv, ready=ready)], policy=QUICK, ready_timeout_s=0.2)
    with pytest.raises(ChildDiedTooOftenError, match=r"last: not ready within 0.2 s"):
        await until_failed(tree, lambda: os.kill(tree.pids()["a"], signal.SIGKILL))
    assert len(starts) == 4


async def test_nothing_is_restarted_during_the_stop():
    starts = []

    def argv():
        starts.append(None)
        return [sys.executable, "-c", SLEEP]

    async with Supervisor([ChildSpec("a", argv), child("b", IGNORE_SIGTERM)]) as tree:
        os.kill(tree.pids()["a"], signal.SIGKILL)
    assert len(starts) == 1


deaths = st.lists(st.floats(0, 1000), min_size=1, max_size=11).map(sorted)


@given(deaths)
def test_pauses_are_bounded_and_ten_deaths_in_a_minute_are_allowed(times):
    policy = RestartPolicy()
    pause_s = policy.pause_s(times, times[-1])
    recent = [at_s for at_s in times if times[-1] - at_s <= 60.0]
    assert (pause_s is None) == (len(recent) > 10)
    assert pause_s is None or 0.1 <= pause_s <= 5.0


def test_pauses_double_from_a_tenth_of_a_second_to_five():
    policy = RestartPolicy()
    pauses = [policy.pause_s([0.0] * count, 0.0) for count in range(1, 12)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0, None]
    assert policy.pause_s([0.0] * 10 + [61.0], 61.0) == 0.1


# Output


async def test_lines_are_forwarded_unchanged_and_a_loud_child_is_not_blocked():
    lines = Lines()
    code = (
        "import sys; sys.stderr.buffer.write(b'\\xff' * 300_000 + b'\\nend'); sys.stderr.flush(); "
    )
    async with Supervisor([child("a", code + SLEEP, grace_s=0.1)], sink=lines):
        await until(lambda: sum(map(len, lines)) >= 300_001)
    await until(lambda: lines[-1] == b"end")
    assert b"".join(lines) == b"\xff" * 300_000 + b"\nend"
    assert max(map(len, lines)) <= 65_536


async def test_a_child_gets_the_environment_that_it_is_given():
    lines = Lines()
    code = "import os; print(os.environ['A'], flush=True); " + SLEEP
    async with Supervisor([child("a", code, env=lambda: {"A": "b"})], sink=lines):
        await until(lambda: lines)
    assert lines == [b"b\n"]


# Services


class FakeService:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.running = False
        self.pid: int | None = None

    def start(self) -> None:
        self._note("start")
        self.running = True

    def alive(self) -> bool:
        self.threads.add(threading.get_ident())
        return self.running

    def stop(self, timeout_s: float) -> None:
        assert 0 < timeout_s <= 1.0
        self._note("stop")
        self.running = False

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.get_ident())


async def test_a_service_is_started_again_when_it_is_not_alive_and_stopped_at_the_end():
    service = FakeService()
    async with Supervisor([ServiceSpec("redis", service), child("a")], policy=QUICK) as tree:
        assert service.calls == ["start"]
        assert list(tree.pids()) == ["a"]
        service.running = False
        await until(lambda: len(service.calls) == 2)
    assert service.calls == ["start", "start", "stop"]


async def test_a_service_lives_in_one_thread_that_is_not_the_loop():
    service = FakeService()
    async with Supervisor([ServiceSpec("redis", service)]):
        await until(lambda: len(service.threads) == 1)
    assert len(service.threads) == 1
    assert threading.get_ident() not in service.threads


class StuckService(FakeService):
    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SLEEP])
        self.pid = self.process.pid
        super().start()

    def stop(self, timeout_s: float) -> None:
        self.pid = None
        self.process.wait(timeout_s + 30)


async def test_who_asked_is_told_of_deaths_alike_and_cannot_end_the_tree():
    deaths_told = []

    def tell(deaths):
        deaths_told.append(deaths)
        raise OSError("no terminal")

    last = child("a", "import sys; sys.exit('no memory')")
    tree = Supervisor([last], policy=QUICK, died_alike=tell)
    with pytest.raises(ChildDiedTooOftenError):
        await until_failed(tree, lambda: None)
    assert [death.times for death in deaths_told] == [3, 4]
    assert (deaths_told[0].name, deaths_told[0].reason, deaths_told[0].last_line) == (
        "a",
        "exit code 1",
        "no memory",
    )


async def test_the_last_line_of_a_child_is_read_however_late_what_it_wrote_is_read():
    deaths_told = []

    def write_slowly(_: bytes) -> None:
        time.sleep(2 * PUMP_END_S)

    code = "import sys; sys.exit('first\\nlast')"
    tree = Supervisor(
        [child("a", code)],
        policy=RestartPolicy(first_s=0.01, deaths_max=ALIKE_SAID - 1),
        sink=write_slowly,
        died_alike=deaths_told.append,
    )
    with pytest.raises(ChildDiedTooOftenError) as caught:
        await until_failed(tree, lambda: None)
    assert [death.last_line for death in deaths_told] == ["last"]
    assert caught.value.last_lines == ["first", "last"]


async def test_deaths_after_a_long_life_are_not_alike():
    deaths, starts = [], []

    def argv():
        starts.append(len(starts))
        return [sys.executable, "-c", "pass"]

    at_once = RestartPolicy(first_s=0.0, pause_max_s=0.0, window_s=0.0)
    async with Supervisor([ChildSpec("a", argv)], policy=at_once, died_alike=deaths.append):
        await until(lambda: len(starts) > 5)
    assert deaths == []


async def test_a_service_whose_stop_hangs_is_killed():
    service = StuckService()
    began_s = time.monotonic()
    async with Supervisor([ServiceSpec("redis", service, grace_s=0.2)]):
        began_s = time.monotonic()
    hold_at_night(time.monotonic() - began_s, STOP_TOTAL_S + BUSY_S)
    assert service.process.wait(5) == -signal.SIGKILL


class BrokenService(FakeService):
    def start(self) -> None:
        raise OSError("no such server")


async def test_a_service_that_cannot_start_fails_the_start():
    with pytest.raises(ChildNotReadyError, match=r"redis: cannot be started: .*no such server"):
        async with Supervisor([ServiceSpec("redis", BrokenService())]):
            pytest.fail("the block must not run")


# Dying with the parent

TREE = """
import sys, anyio
from workers.process_tree.child_process import ChildSpec
from workers.process_tree.supervisor import Supervisor

CHILD = '''
import os, signal, sys, time
from workers.process_tree.child_process import die_with_parent
die_with_parent(int(sys.argv[1]), grace_s=0.5)
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    def end(*_):
        open(sys.argv[3], "w").write("finished cleanly")
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
print("child", os.getpid(), flush=True)
time.sleep(600)
'''

async def main():
    import os
    base = [sys.executable, "-c", CHILD, str(os.getpid())]
    specs = [ChildSpec(k, [*base, k, sys.argv[1]]) for k in ("clean", "deaf")]
    async with Supervisor(specs) as tree:
        await anyio.sleep_forever()
    print("stopped by", tree.stopped_by.name, file=sys.stderr)

anyio.run(main)
"""


@pytest.fixture
def running_tree(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", TREE, str(tmp_path / "out")],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    pids = [int(process.stderr.readline().split()[1]) for _ in range(2)]
    yield process, pids, tmp_path / "out"
    for pid in [process.pid, *pids]:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()


async def test_children_end_when_the_supervisor_is_killed(running_tree):
    process, pids, out = running_tree
    process.kill()
    process.wait()
    await until(lambda: not any(runs(pid) for pid in pids))
    assert out.read_text() == "finished cleanly"


async def test_ctrl_c_reaches_the_supervisor_alone_which_stops_the_children(running_tree):
    process, pids, out = running_tree
    os.killpg(process.pid, signal.SIGINT)
    began_s = time.monotonic()
    await until(lambda: process.poll() is not None)
    hold_at_night(time.monotonic() - began_s, STOP_TOTAL_S + BUSY_S)
    assert process.returncode == 0
    assert b"stopped by SIGINT" in process.stderr.read()
    assert out.read_text() == "finished cleanly"
    assert not any(runs(pid) for pid in pids)


async def test_a_child_whose_parent_is_gone_already_ends_at_once():
    code = (
        "from workers.process_tree.child_process import die_with_parent\n"
        "die_with_parent(2**22 + 1)\n" + SLEEP
    )
    done = await anyio.run_process([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGTERM


FALLBACK = """
import os, signal, sys, time
import workers.process_tree.child_process as children
sys.platform = "one without such help"
pid = os.fork()
if pid:
    time.sleep(0.3)
    os._exit(0)
children.die_with_parent()
signal.signal(signal.SIGTERM, lambda *_: (print("finished"), sys.exit()))
print(os.getpid(), flush=True)
time.sleep(60)
"""


async def test_without_the_kernels_help_the_child_finds_out_by_itself():
    # The child holds the pipe of its output, so this returns when the child has ended too.
    done = await anyio.run_process([sys.executable, "-c", FALLBACK], cwd=ROOT)
    pid, last = done.stdout.split()
    assert last == b"finished"
    await until(lambda: not runs(int(pid)))


async def test_a_child_that_dies_while_starts_are_hindered_waits_and_is_not_counted(monkeypatch):
    monkeypatch.setattr(supervisor_module, "HINDERED_POLL_S", 0.01)
    hindered, looks = True, 0

    async def hindrance() -> str:
        nonlocal looks
        looks += 1
        return "a full disk" if hindered else ""

    none = RestartPolicy(first_s=0.01, deaths_max=0)
    with structlog.testing.capture_logs() as logs:
        async with Supervisor([child("a")], policy=none, hindrance=hindrance) as tree:
            first = tree.pids()["a"]
            os.kill(first, signal.SIGKILL)
            await until(lambda: looks > 5)
            assert tree.pids() == {}
            hindered = False
            await until(lambda: tree.pids().get("a", first) != first)
    said = [(entry["event"], entry.get("reason")) for entry in logs]
    assert said.count(("start_waits", "a full disk")) == 1
    assert [event for event, _ in said if event == "child_died"] == []


async def test_a_child_that_dies_again_after_the_wait_is_counted_as_before(monkeypatch):
    monkeypatch.setattr(supervisor_module, "HINDERED_POLL_S", 0.01)
    answers = iter(["a full disk", "a full disk"])

    async def hindrance() -> str:
        return next(answers, "")

    with pytest.raises(ChildDiedTooOftenError):
        async with Supervisor(
            [child("a", "import time; time.sleep(0.2)")], policy=QUICK, hindrance=hindrance
        ):
            await anyio.sleep(60)
