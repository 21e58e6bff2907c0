"""Runs the process of a witness: checkpoints and hand-overs are sent to it over HTTP."""

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from actors.supervision import keep_running
from kernel.proof.signing_keys import SigningKeyUnavailable
from kernel.proof.witness_policy import WitnessPolicy
from workers.api.errors import respond
from workers.api.middleware.request_guard import RequestGuardMiddleware
from workers.environment.key_file import CheckpointKeyUnusable, hold_keys
from workers.environment.listening import listen, port_of
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.environment.tls_identity import tls_identity
from workers.gateway.server import GatewayServer, server_config
from workers.witness.cosigned_folder import CosignedFolder
from workers.witness.witness import Witness, WitnessAnswer, cosigned_path

PORT = 8441
REQUESTS_MAX = 64
"""Requests that are read and decided at once; more are answered 503, unread."""

_log = structlog.get_logger(__name__)


def witness_app(
    witness: Witness, settings: Settings, *, requests_max: int = REQUESTS_MAX
) -> Starlette:
    """Return the application; it answers only to the host names of the settings."""
    places = anyio.CapacityLimiter(requests_max)

    async def answer_within_limit(
        request: Request, answer_to: Callable[[bytes], WitnessAnswer]
    ) -> Response:
        if places.available_tokens < 1:
            return respond("gateway_full", "the witness has as much in hand as it takes")
        async with places:
            body = await request.body()
            try:
                answer = await anyio.to_thread.run_sync(answer_to, body)
            except (CheckpointKeyUnusable, SigningKeyUnavailable) as error:
                _log.error("witness_cannot_cosign", code=error.code, error=str(error))
                return respond("witness_unavailable", "nothing can be cosigned now")
        return Response(answer.body, answer.status, {"Content-Type": answer.media_type})

    async def add_checkpoint(request: Request) -> Response:
        return await answer_within_limit(request, witness.add)

    async def add_handover(request: Request) -> Response:
        return await answer_within_limit(request, witness.add_handover)

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    app = Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/add-handover", add_handover, methods=["POST"]),
            Route("/healthz", health, methods=["GET"]),
        ]
    )
    app.add_middleware(RequestGuardMiddleware, hosts=settings.host_names, host=system_host())
    return app


async def serve_witness(
    settings: Settings,
    key_file: Path,
    logs: WitnessPolicy,
    port: int,
    listens: Callable[[str], None],
) -> None:
    """Run a witness until it has to stop; `listens` is told of its address.

    Raises:
        TlsUnusable: its certificate or its key cannot be used.
        CheckpointKeyUnusable: its keys, or what it has cosigned, cannot be read, or another
            process holds them.
        AddressUnusableError: somebody else listens at the address.
    """
    with hold_keys(key_file) as keys, listen(settings.host, port, "--port") as bound:
        cosigned = CosignedFolder(cosigned_path(key_file))
        host = system_host()
        witness = Witness(keys, logs, cosigned, lambda: host.now_us() // 1_000_000)
        tls = tls_identity(settings)
        server = GatewayServer(server_config(witness_app(witness, settings), tls), _nothing)
        listens(f"{settings.host}:{port_of(bound)}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_running, "slow_clients", server.slow.run)
            if tls is not None:
                tasks.start_soon(keep_running, "tls_identity", tls.follow)
            await server.serve([bound])
            tasks.cancel_scope.cancel()


async def _nothing() -> None:
    """Have nothing to release."""
