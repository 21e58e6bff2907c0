"""How each kind of fault is inflicted on a fleet, and taken back."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psycopg
from redis import Redis
from redis.exceptions import RedisError

from tests.chaos import witness
from tests.chaos.another_version import VARIABLE
from tests.chaos.fleet import ChaosFleet, FleetProcess, preloaded
from tests.chaos.schedule import Fault

AIM_S = 1.0
"""How long a fault that meets a certain moment waits for it."""

EVICTED = 0.5
"""Of the keys, how many go at once."""

STEP_BACK_S = 90
AHEAD = "+25h"
"""Longer than a key has its answer."""

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
    fleet.flush_redis()


def _evict(fleet: ChaosFleet, fault: Fault, _wait: Wait) -> None:
    with _administrator(fleet) as redis:
        keys = sorted(redis.scan_iter(count=1000))
        drawn = random.Random(fault.at_s).sample(keys, int(len(keys) * EVICTED))
        if drawn:
            redis.unlink(*drawn)


def _refuse(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Have every write refused as a primary does that lost its replicas (NOREPLICAS)."""
    with _configured(fleet, "min-replicas-to-write", "1", "0"):
        wait(fault.lasts_s)


def _fill(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Leave no memory: whatever might need more is refused (OOM)."""
    with _configured(fleet, "maxmemory", "1", "0"):
        wait(fault.lasts_s)


def _busy(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Run a script without an end, while which others are told so (BUSY)."""

    def run_for_ever() -> None:
        with _administrator(fleet) as redis, suppress(RedisError):
            redis.eval("while true do end", 0)

    with _configured(fleet, "busy-reply-threshold", "20", "5000"):
        thread = threading.Thread(target=run_for_ever, daemon=True)
        thread.start()
        try:
            wait(fault.lasts_s)
        finally:
            with _administrator(fleet) as redis, suppress(RedisError):
                redis.script_kill()
            thread.join()


def _demote(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Make a replica of the server, of a primary that is not there (READONLY), and undo that."""
    with _administrator(fleet) as redis:
        redis.replicaof("127.0.0.1", "1")
    try:
        wait(fault.lasts_s)
    finally:
        with _administrator(fleet) as redis:
            redis.replicaof("NO", "ONE")


def _deny(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Take the right to run scripts from the fleet's user (NOPERM)."""
    with _user_changed(fleet, ["-evalsha"], ["+evalsha"]):
        wait(fault.lasts_s)


def _lock_out(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Change the password of the fleet's user, and end what it has open (WRONGPASS)."""
    password = urlsplit(fleet.redis.url).password
    with _user_changed(fleet, ["resetpass", ">another"], ["resetpass", f">{password}"]):
        with _administrator(fleet) as redis:
            redis.execute_command("CLIENT", "KILL", "USER", "default")
        wait(fault.lasts_s)


@contextmanager
def _user_changed(fleet: ChaosFleet, rules: list[str], before: list[str]) -> Iterator[None]:
    with _administrator(fleet) as redis:
        redis.execute_command("ACL", "SETUSER", "default", *rules)
    try:
        yield
    finally:
        with _administrator(fleet) as redis:
            redis.execute_command("ACL", "SETUSER", "default", *before)


@contextmanager
def _configured(fleet: ChaosFleet, name: str, value: str, before: str) -> Iterator[None]:
    with _administrator(fleet) as redis:
        redis.config_set(name, value)
    try:
        yield
    finally:
        with _administrator(fleet) as redis:
            redis.config_set(name, before)


@contextmanager
def _administrator(fleet: ChaosFleet) -> Iterator["Redis[bytes]"]:
    with Redis.from_url(fleet.redis_administrator_url) as redis:
        yield redis


def _restart_redis(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    fleet.kill_redis()
    wait(fault.lasts_s)
    fleet.redis.start()


def _step_redis_clock(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Set the clock of Redis back, and right again."""
    fleet.set_redis_clock(-STEP_BACK_S)
    wait(fault.lasts_s)
    fleet.set_redis_clock(0)


def _wait_for_disk(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    """Have PostgreSQL wait for its disk at every COMMIT, which it does not do otherwise here."""
    fleet.set_fsync("on")
    wait(fault.lasts_s)
    fleet.set_fsync("off")


def _restart_postgres(fleet: ChaosFleet, fault: Fault, wait: Wait) -> None:
    fleet.postgres.stop(signal.SIGQUIT)
    wait(fault.lasts_s)
    fleet.postgres.start()


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
    "restart_postgres": _restart_postgres,
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
