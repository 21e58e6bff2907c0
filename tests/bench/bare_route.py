"""The peer of a gateway: a FastAPI route that validates an elimination's body, and no more.

python -m tests.bench.bare_route PORT
"""

import sys
from uuid import UUID

import uvicorn
from fastapi import FastAPI

from workers.api.routes.belief_sessions import EliminateBody
from workers.gateway.server import server_config

app = FastAPI(docs_url=None, redoc_url=None)


@app.post("/v1/sessions/{session_id}/eliminate")
async def eliminate(session_id: UUID, body: EliminateBody) -> dict[str, str]:
    """Say what was asked for."""
    return {"session_id": str(session_id), "observation_id": body.observation_id}


if __name__ == "__main__":
    config = server_config(app)
    config.port = int(sys.argv[1])
    uvicorn.Server(config).run()
