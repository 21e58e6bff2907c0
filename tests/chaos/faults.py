"""How each kind of fault is inflicted on a fleet, and taken back."""

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from kernel.values.fleet_protocol import PROTOCOL
from tests.chaos import witness
from tests.chaos.another_version import VARIABLE
from tests.chaos.fleet import ChaosFleet, FleetProcess
from tests.chaos.judge import every_answer_on_record, read_record
from tests.chaos.load import read_answers
from tests.chaos.redis_places import ReplicatedRedis, SingleRedis, preloaded
from tests.chaos.schedule import GATEWAYS, WORKERS, Fault
from tests.process_environment import process_environment
from tests.queues.topologies import Cluster, Server, is_well
from tests.replicated_postgres import ReplicatedPostgres
from tests.system.tree_run import COMMAND, wait_for

AIM_S = 1.0
"""How long a fault that meets a certain moment waits for it."""

EVICTED = 0.5
"""Of the keys, how many go at once."""

STEP_BACK_S = 90
AHEAD = "+25h"
"""Longer than a key has its answer."""

CHANGED_S = 60.0
"""Generous, as machines are busy: until servers are what a command or a loss makes of them."""

DRAINED_S = 60.0
"""Generous, too: until a process that is asked to end has finished what it has in hand."""

SERVES_S = 4.0
"""How long a program that is started from its beginning may take until it answers."""

Wait = Callable[[float], None]
Inflict = Callable[[ChaosFleet, Fault, Wait], None]


def _kill(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    fleet.processes[fault.target].kill()
    wait(fault.lasts_s)
    fleet.processes[fault.target].start()


def _pause(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    fleet.processes[fault.target].send(signal.SIGSTOP)
    try:
        wait(fault.lasts_s)
    finally:
        fleet.processes[fault.target].send(signal.SIGCONT)


def _pause_writer(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Stop a gateway while it writes: in the middle of a transaction that changes something."""
    process, until_s = fleet.processes[fault.target], time.monotonic() + AIM_S
    with psycopg.connect(fleet.database_url, autocommit=True) as connection:
        while not (stopped := _stop_if_it_writes(process, connection, fault.target)):
            if time.monotonic() > until_s:
                break
    if not stopped:
        process.send(signal.SIGSTOP)
    try:
        wait(fault.lasts_s)
    finally:
        process.send(signal.SIGCONT)


def _stop_if_it_writes(
    process: FleetProcess, connection: "psycopg.Connection[tuple[int]]", gateway: str
) -> bool:
    writing = (
        "SELECT 1 FROM pg_stat_activity WHERE usename = %s AND backend_xid IS NOT NULL"
        " AND state LIKE 'idle in transaction%%'"
    )
    role = [witness.role_of(gateway)]
    if connection.execute(writing, role).fetchone() is None:
        return False
    process.send(signal.SIGSTOP)
    if connection.execute(writing, role).fetchone() is not None:
        return True
    process.send(signal.SIGCONT)
    return False


def _start_another_version(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    process = fleet.processes[fault.target]
    process.kill()
    process.start(**{VARIABLE: "999"})
    wait(fault.lasts_s)
    process.kill()
    process.start()


def _roll(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Bring the fleet to another version process by process, each drained first, and back.

    The order leaves a worker for what either version relays.
    """
    first, *others = WORKERS
    for env in ({VARIABLE: str(PROTOCOL + 1)}, {}):
        for process in map(fleet.processes.__getitem__, (first, *GATEWAYS, *others)):
            ended = process.end(DRAINED_S)
            assert ended == 0, f"{process.name} ended with {ended}:\n{process.tail()}"
            process.start(**env)
            if process.name in GATEWAYS:
                _wait_until_ready(fleet, process.name, wait)
        wait(fault.lasts_s)


def _wait_until_ready(fleet: ChaosFleet, gateway: str, wait: Wait) -> None:
    until_s = time.monotonic() + CHANGED_S
    while not fleet.ready(gateway) and time.monotonic() < until_s:
        wait(0.1)


def _start_ahead(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Start a gateway whose clock is a day and an hour ahead; it serves all the same."""
    process = fleet.processes[fault.target]
    process.kill()
    process.start_afresh(**preloaded("libfaketimeMT.so.1"), FAKETIME=AHEAD)
    until_s = time.monotonic() + SERVES_S
    while not fleet.answers(fault.target) and time.monotonic() < until_s:
        wait(0.1)
    wait(fault.lasts_s)
    process.kill()
    process.start()


def _flush(fleet: ChaosFleet, _fault: Fault, _wait: Wait) -> None:
    with fleet.redis.administrator() as redis:
        assert redis.flushall()


def _evict(fleet: ChaosFleet, fault: Fault, _wait: Wait) -> None:
    with fleet.redis.administrator() as redis:
        keys = sorted(redis.scan_iter(count=1000))
        drawn = random.Random(fault.at_s).sample(keys, int(len(keys) * EVICTED))
        if drawn:
            redis.unlink(*drawn)


def _refuse(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Have every write refused as a primary does that lost its replicas (NOREPLICAS)."""
    with _configured(fleet, "min-replicas-to-write", "9", "0"):
        wait(fault.lasts_s)


def _fill(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Leave no memory: whatever might need more is refused (OOM)."""
    with _configured(fleet, "maxmemory", "1", "0"):
        wait(fault.lasts_s)


def _busy(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Run a script without an end, while which others are told so (BUSY)."""

    def run_for_ever(redis: Redis) -> None:
        with suppress(RedisError):
            redis.eval("while true do end", 0)

    with (
        _nobody_promoted(fleet),
        _configured(fleet, "busy-reply-threshold", "20", "5000") as redis,
        redis.client() as runner,
    ):
        thread = threading.Thread(target=run_for_ever, args=[runner], daemon=True)
        thread.start()
        wait_for("a busy server", lambda: _is_refused(redis.ping), CHANGED_S)
        try:
            wait(fault.lasts_s)
        finally:
            with suppress(RedisError):
                redis.script_kill()
            thread.join()


def _is_refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except ResponseError:
        return True
    return False


def _demote(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Make a replica of the server, of a primary that is not there (READONLY), and undo that."""
    with _nobody_promoted(fleet), fleet.redis.administrator() as redis:
        redis.replicaof("127.0.0.1", "1")
        try:
            wait(fault.lasts_s)
        finally:
            redis.replicaof("NO", "ONE")


def _deny(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Take the right to run scripts from the fleet's user (NOPERM)."""
    with _user_changed(fleet, ["-evalsha"], ["+evalsha"]):
        wait(fault.lasts_s)


def _lock_out(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Change the password of the fleet's user, and end what it has open (WRONGPASS)."""
    user, password = fleet.redis.user, fleet.redis.password
    with _user_changed(fleet, ["resetpass", ">another"], ["resetpass", f">{password}"]) as redis:
        redis.execute_command("CLIENT", "KILL", "USER", user)
        wait(fault.lasts_s)


@contextmanager
def _user_changed(fleet: ChaosFleet, rules: list[str], before: list[str]) -> Iterator[Redis]:
    with fleet.redis.administrator() as redis:
        redis.execute_command("ACL", "SETUSER", fleet.redis.user, *rules)
        try:
            yield redis
        finally:
            redis.execute_command("ACL", "SETUSER", fleet.redis.user, *before)


@contextmanager
def _configured(fleet: ChaosFleet, name: str, value: str, before: str) -> Iterator[Redis]:
    with fleet.redis.administrator() as redis:
        redis.config_set(name, value)
        try:
            yield redis
        finally:
            redis.config_set(name, before)


@contextmanager
def _nobody_promoted(fleet: ChaosFleet) -> Iterator[None]:
    """Have no replica take over in the time of a block, however long it takes."""
    if not isinstance(fleet.redis, ReplicatedRedis):
        yield
        return
    fleet.redis.servers.hold()
    try:
        yield
    finally:
        fleet.redis.servers.release()


def _kill_primary(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Kill the server that serves; it comes back once another one does."""
    serving = _replicated(fleet).serving()
    _lose(fleet, serving, serving.kill, fault, wait)


def _hang_primary(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Stop the server that serves; it goes on, as what it was, once another one does."""
    serving = _replicated(fleet).serving()
    _lose(fleet, serving, serving.hang, fault, wait)


def _kill_other_node(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Kill a node that serves none of our keys, without which a cluster serves nobody."""
    servers = _replicated(fleet).servers
    assert isinstance(servers, Cluster)
    serving = _replicated(fleet).serving()
    other = random.Random(fault.at_s).choice(servers.others())

    def kill_until_noticed() -> None:
        other.kill()
        wait_for("a cluster that is down", lambda: not is_well(serving), CHANGED_S)

    _lose(fleet, other, kill_until_noticed, fault, wait)


def _lose(
    fleet: ChaosFleet, server: Server, lose: Callable[[], None], fault: Fault, wait: Wait
) -> None:
    """Lose a server until others do what it did; `ReplicatedRedis.restore` brings it back."""
    with _nobody_promoted(fleet):
        lose()
        wait(fault.lasts_s)
    servers = _replicated(fleet).servers
    wait_for("a promoted replica", lambda: servers.does_without(server), CHANGED_S)


def _switch(fleet: ChaosFleet, _fault: Fault, _wait: Wait) -> None:
    """Have a replica promoted while its primary is well."""
    redis = _replicated(fleet)
    before = redis.serving()
    redis.servers.switch()
    wait_for("a promoted replica", lambda: redis.servers.does_without(before), CHANGED_S)


def _replicated(fleet: ChaosFleet) -> ReplicatedRedis:
    assert isinstance(fleet.redis, ReplicatedRedis)
    return fleet.redis


def _single(fleet: ChaosFleet) -> SingleRedis:
    assert isinstance(fleet.redis, SingleRedis)
    return fleet.redis


def _restart_redis(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    redis = _single(fleet)
    redis.kill()
    wait(fault.lasts_s)
    redis.server.start()


def _step_redis_clock(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Set the clock of Redis back, and right again."""
    redis = _single(fleet)
    redis.set_clock(-STEP_BACK_S)
    wait(fault.lasts_s)
    redis.set_clock(0)


def _wait_for_disk(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Have PostgreSQL wait for its disk at every COMMIT, which it does not do otherwise here."""
    fleet.set_fsync("on")
    wait(fault.lasts_s)
    fleet.set_fsync("off")


def _restart_postgres(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    fleet.primary.stop(signal.SIGQUIT)
    wait(fault.lasts_s)
    fleet.primary.start()


def _fail_over_postgres(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """End the primary and promote its standby; the old one follows once the new one has served."""
    servers = fleet.postgres
    assert isinstance(servers, ReplicatedPostgres)
    servers.fail_over()
    wait(fault.lasts_s)
    servers.rejoin()
    servers.settle(synchronous=True)


def _drill(fleet: ChaosFleet, fault: Fault, _wait: Wait) -> None:
    """Back up while everything works, restore beside it, and look for what was answered before."""
    answers = read_answers(fleet.answers_path)
    drill = fleet.folder / f"drill-{fault.at_s}"
    _rotulus("backup", "--output", str(drill / "place"), url=fleet.database_url, folder=drill)
    beside = fleet.primary.new_database()
    restore = ("restore", str(drill / "place"), "--to", str(drill / "restored"))
    _rotulus(*restore, url=beside, folder=drill)
    record = read_record(beside, witnessed=False)
    assert not record.findings
    lost = [*every_answer_on_record(record, answers)]
    assert not lost, f"of {len(answers)} answers before the backup: {lost[:5]}"


def _rotulus(*words: str, url: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    settings = {"ROTULUS_DATABASE_URL": url, "ROTULUS_DATA_DIR": str(folder / "data")}
    ended = subprocess.run(
        [COMMAND, *words],
        env=process_environment() | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def _delay(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    proxies = fleet.proxies_to(_server_of(fault))
    for proxy in proxies:
        proxy.delay_s = fault.delay_ms / 1000
    try:
        wait(fault.lasts_s)
    finally:
        for proxy in proxies:
            proxy.delay_s = 0.0


def _cut(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """End the connections to a server, of one process or of all."""
    proxies = fleet.proxies_to(_server_of(fault), fault.target)
    for proxy in proxies:
        fleet.proxies.run(proxy.cut())
    try:
        wait(fault.lasts_s)
    finally:
        for proxy in proxies:
            fleet.proxies.run(proxy.mend())


def _silence(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Lose every connection to a server without ending it, and those that are made meanwhile."""
    proxies = fleet.proxies_to(_server_of(fault))
    for proxy in proxies:
        proxy.is_silent = True
        proxy.lose()
    try:
        wait(fault.lasts_s)
    finally:
        for proxy in proxies:
            proxy.is_silent = False


def _cut_at_commit(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Cut a gateway off at its next COMMIT, before the server has it or before it answers."""
    [proxy] = fleet.proxies_to("postgres", fault.target)
    proxy.cuts_commit = "before" if fault.kind == "lose_commit" else "after"
    try:
        wait(fault.lasts_s)
    finally:
        proxy.cuts_commit = ""


def _server_of(fault: Fault) -> str:
    return fault.kind.split("_")[1]


INFLICT: Mapping[str, Inflict] = {
    "kill_gateway": _kill,
    "kill_worker": _kill,
    "pause_gateway": _pause,
    "pause_writer": _pause_writer,
    "pause_worker": _pause,
    "worker_of_another_version": _start_another_version,
    "gateway_of_another_version": _start_another_version,
    "roll_fleet": _roll,
    "gateway_a_day_ahead": _start_ahead,
    "flush_redis": _flush,
    "evict_redis": _evict,
    "refuse_redis": _refuse,
    "fill_redis": _fill,
    "busy_redis": _busy,
    "demote_redis": _demote,
    "deny_redis": _deny,
    "lock_redis": _lock_out,
    "restart_redis": _restart_redis,
    "clock_redis": _step_redis_clock,
    "promote_redis": _kill_primary,
    "kill_redis_node": _kill_primary,
    "kill_other_redis_node": _kill_other_node,
    "hang_redis": _hang_primary,
    "switch_redis": _switch,
    "restart_postgres": _restart_postgres,
    "fail_over_postgres": _fail_over_postgres,
    "drill_backup": _drill,
    "fsync_postgres": _wait_for_disk,
    "delay_redis": _delay,
    "delay_postgres": _delay,
    "cut_redis": _cut,
    "cut_postgres": _cut,
    "cut_redis_of_gateway": _cut,
    "cut_postgres_of_gateway": _cut,
    "silence_redis": _silence,
    "silence_postgres": _silence,
    "lose_commit": _cut_at_commit,
    "doubt_commit": _cut_at_commit,
}
