"""Seals a run over HTTP (seed 003)."""

from fastapi import Response

from actors.commit.run_units import RunSealDocument, SealRunUnit
from kernel.landscape.seals import seal_to_state
from workers.api.json_routes import RecordId, json_router
from workers.api.routes.thoughts import answer_or_refusal
from workers.api.services import Given

router = json_router("write.runs", prefix="/v1/landscape", tags=["landscape"])


@router.post("/runs/{run_id:path}/seal")
async def seal_run(run_id: RecordId, services: Given) -> RunSealDocument | Response:
    """State the digests of a run that has ended on the log; a second time, answer with them."""
    stated = await services.read(lambda view: seal_to_state(view, run_id))
    return answer_or_refusal(await services.write(SealRunUnit(stated)))
