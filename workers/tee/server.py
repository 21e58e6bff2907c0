"""Runs the process `rotulus tee`: the Tee contract and gRPC health on one port, from one ledger.

A stop has an order: health goes red and no call is taken any more, those that run are finished, the
ledger is closed.

Every call has a thread, 64 of them, and 8 are answered at once: a call whose message never comes
held one of eight threads for ever, and eight of them stopped the Tee. A connection lasts a minute
and the calls on it half a minute more, so a call that only waits is gone then. A client connects
anew each minute.
"""

import functools
import hmac
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from actors.incidents.incidents import Incidents
from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import Ledger
from kernel.transaction.kernel import Kernel
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_or_create_ledger
from workers.environment.ledger_clock import LedgerClock
from workers.environment.machine_limits import begin_within_limits
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.environment.tls_identity import TlsIdentity, tls_identity
from workers.tee.rpc import authorization_of, serve_methods
from workers.tee.service import TeeService

SERVICE = "tee.Tee"
PORT = 50051
CALLS_MAX = 64
"""Calls at once, each on a thread: one whose message never comes takes nobody else's."""

REQUEST_MAX_BYTES = 16 << 20
STOP_GRACE_S = 5.0
CONNECTION_AGE_MS = 60_000
CALL_AGE_MS = 30_000
"""How long a call may go on when its connection is as old as one may become. Clients connect anew
by themselves, and who sends nothing, or watches, is rid of that way."""

_OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_MAX_BYTES),
    ("grpc.max_send_message_length", -1),
    # Two processes on one port would each get some of the calls, and nobody would be told.
    ("grpc.so_reuseport", 0),
    # Nothing is unpacked: a packed message is refused by its header (UNIMPLEMENTED).
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_connection_age_ms", CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", CALL_AGE_MS),
)

_log = structlog.get_logger(__name__)

CODE = "message_invalid"

_UNREADABLE: Final = object()


class TeeStartError(Exception):
    """The process cannot start; `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TeeServer:
    """A server on an address; it serves between `start` and `stop`."""

    def __init__(
        self,
        ledger: Ledger,
        store: LedgerEliminationStore,
        address: str,
        tls: TlsIdentity | None = None,
        token: str | None = None,
    ) -> None:
        """Bind the address, which is `host:port`; port 0 is any free one.

        With a token whoever calls the contract has to show it; health is told to everybody.

        Raises:
            TeeStartError: `address_unusable`.
        """
        self._health = health.HealthServicer()
        pool = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="tee")
        self._server = grpc.server(
            pool,
            options=_OPTIONS,
            interceptors=[*([] if token is None else [KnownCallers(token)]), ReadableRequests()],
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        service = TeeService(Incidents(ledger, store), unfit=lambda: self._say(healthy=False))
        serve_methods(service, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        try:
            if tls is None:
                self.port: int = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError:
            raise TeeStartError("address_unusable", f"{address} cannot be bound") from None

    def start(self) -> None:
        """Take calls."""
        self._server.start()
        self._say(healthy=True)

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Take no more calls, let those that run end within the grace, and return then."""
        self._say(healthy=False)
        self._server.stop(grace_s).wait()

    def _say(self, *, healthy: bool) -> None:
        statuses = health_pb2.HealthCheckResponse
        status = statuses.SERVING if healthy else statuses.NOT_SERVING
        for name in ("", SERVICE):
            self._health.set(name, status)


def serve_tee(settings: Settings, port: int, listens: Callable[[str], None]) -> None:
    """Serve the ledger of the settings until SIGTERM or SIGINT; call `listens` with the address.

    Raises:
        TeeStartError: `address_unusable`, `tee_token_missing`.
        TlsUnusable: its certificate or its key cannot be used.
        MachineUnfitError: a limit of the machine leaves it no room to work.
        DataFolderError: the folder cannot be used, or others could.
        LedgerUnavailable: when the ledger cannot be opened.
    """
    token = settings.worker_token
    if settings.takes_keys and token is None:
        message = "access takes keys: set ROTULUS_WORKER_TOKEN, which gateways show a Tee"
        raise TeeStartError("tee_token_missing", message)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    folder = DataFolder(settings.data_dir)
    begin_within_limits(folder.path)
    folder.make()
    clock = LedgerClock()
    host = system_host(clock.now_us)
    ledger = open_or_create_ledger(ledger_place(settings), host, clock=clock)
    try:
        kernel = Kernel(idempotency_window_hours=settings.kernel_idempotency_window_hours)
        orchestrator = Orchestrator(host, settings.kernel_causal_window_minutes)
        store = LedgerEliminationStore(ledger, kernel, orchestrator, "tee")
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        secret = token.get_secret_value() if token is not None and settings.takes_keys else None
        server = TeeServer(ledger, store, f"{shown}:{port}", tls_identity(settings), secret)
        store.take()
        server.start()
        _log.info("tee_listens", port=server.port)
        listens(f"{shown}:{server.port}")
        stopped.wait()
        server.stop()
    finally:
        ledger.close()


def _credentials(tls: TlsIdentity) -> Any:
    """Return what gRPC asks at each connection whether there is another certificate."""

    def newest() -> Any:
        return grpc.ssl_server_certificate_configuration([tls.pair()])

    def newer() -> Any:
        return newest() if tls.read_again() else None

    return grpc.dynamic_ssl_server_credentials(newest(), newer)


class KnownCallers(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Refuses calls of the contract that do not show to know the token (UNAUTHENTICATED)."""

    def __init__(self, token: str) -> None:
        self._expected = authorization_of(token).encode()

        def refuse(_: Any, context: Any) -> None:
            message = "unauthenticated: show that you know ROTULUS_WORKER_TOKEN, as gateways do"
            context.abort(grpc.StatusCode.UNAUTHENTICATED, message)

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], call_details: Any) -> Any:
        """Return the method's handler, or what refuses."""
        stated = dict(call_details.invocation_metadata or ()).get("authorization", "")
        shows_token = hmac.compare_digest(str(stated).encode(), self._expected)
        is_open = not call_details.method.startswith(f"/{SERVICE}/")
        return continuation(call_details) if is_open or shows_token else self._refusal


class ReadableRequests(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Answers a message that cannot be decoded with INVALID_ARGUMENT, whatever its service.

    gRPC decodes a request before the service sees it, and logs a traceback when that fails. So
    this decodes it, and calls the service only with a decoded request.
    """

    def intercept_service(self, continuation: Callable[[Any], Any], call_details: Any) -> Any:
        """Return the method's handler with the reading taken out of gRPC's hands."""
        handler = continuation(call_details)
        if handler is None or handler.request_streaming:
            return handler
        return handler._replace(
            request_deserializer=_reading(handler.request_deserializer),
            unary_unary=_refusing(handler.unary_unary),
            unary_stream=_refusing(handler.unary_stream),
        )


def _reading(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(content: bytes) -> Any:
        try:
            return parse(content)
        except (DecodeError, ValueError):
            return _UNREADABLE

    return read


def _refusing(method: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if method is None:
        return None

    # What a method says of itself (that it does not block) is said of this as well.
    @functools.wraps(method)
    def refuse(request: Any, context: Any, *arguments: Any) -> Any:
        if request is _UNREADABLE:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{CODE}: not a message of the method")
        return method(request, context, *arguments)

    return refuse
