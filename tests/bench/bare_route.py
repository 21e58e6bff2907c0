"""The peers of a gateway: routes that validate a body, or the lines of a stream, and no more.

python -m tests.bench.bare_route PORT
"""

import sys
from uuid import UUID

import uvicorn
from fastapi import FastAPI, Response

from actors.errors import IntentInvalid
from actors.messages import Operate
from workers.api.operation_stream import OperationStreams
from workers.api.routes.belief_sessions import EliminateBody
from workers.gateway.server import server_config

_streams = OperationStreams()
app = FastAPI(docs_url=None, redoc_url=None)


@app.post("/v1/sessions/{session_id}/eliminate")
async def eliminate(session_id: UUID, body: EliminateBody) -> dict[str, str]:
    """Say what was asked for."""
    return {"session_id": str(session_id), "observation_id": body.observation_id}


@app.post("/v1/sessions/{session_id}/operations:bulk")
async def operate_in_bulk(session_id: UUID) -> Response:
    """Say of each line that it was read."""

    async def ask(message: Operate) -> list[object]:
        return [IntentInvalid(intent.intent_key, str(session_id)) for intent in message.intents]

    return _streams.open(ask)


if __name__ == "__main__":
    config = server_config(app)
    config.port = int(sys.argv[1])
    uvicorn.Server(config).run()
