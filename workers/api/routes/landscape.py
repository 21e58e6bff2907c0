"""Runs over HTTP (seed 003): which there are, what they came to, why a row went as it did."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from starlette.convertors import StringConvertor, register_url_convertor
from typing_extensions import TypedDict

from actors.commit.run_units import RunSealDocument, SealRunUnit
from kernel.landscape.seals import seal_to_state
from kernel.ledger.ledger import LedgerView
from workers.api.json_routes import json_router
from workers.api.routes.records import RecordId
from workers.api.routes.thoughts import answered
from workers.api.services import Given
from workers.views import landscape

Document = dict[str, Any]
RunStatus = Literal["running", "completed", "failed", "interrupted"]
ReportName = Literal[
    "dag_structure",
    "performance_report",
    "error_analysis",
    "llm_usage_report",
    "outcome_analysis",
    "failure_context",
    "errors",
]

REPORTS: Mapping[str, Callable[[LedgerView, str], Document]] = MappingProxyType(
    {
        "dag_structure": landscape.dag_structure,
        "performance_report": landscape.performance_report,
        "error_analysis": landscape.error_analysis,
        "llm_usage_report": landscape.llm_usage_report,
        "outcome_analysis": landscape.outcome_analysis,
        "failure_context": landscape.failure_context,
        "errors": landscape.errors,
    }
)


class _ReportConvertor(StringConvertor):
    """A part of a path that names a report; what else lies below a run has a path of its own."""

    regex = "|".join(REPORTS)


register_url_convertor("landscape_report", _ReportConvertor())

_Limit = Annotated[int, Query(ge=1, le=landscape.LIMIT_MAX)]
_Text = Annotated[str, Query(min_length=1, max_length=512)]


class RecordedRunsDocument(TypedDict):
    """The newest runs."""

    runs: list[landscape.RunDocument]


class RunReportDocument(TypedDict):
    """A report on a run; what it holds depends on its name."""

    run_id: str
    report: str
    content: dict[str, Any]


router = json_router(prefix="/v1/landscape", tags=["landscape"])


@router.get("/runs")
async def runs(
    services: Given, limit: _Limit = 50, status: RunStatus | None = None
) -> RecordedRunsDocument:
    """Return the newest runs, those of a status where one is named."""
    newest = await services.read(lambda view: landscape.list_runs(view, limit=limit, status=status))
    return {"runs": newest}


@router.get("/runs/{run_id}")
async def run_summary(run_id: RecordId, services: Given) -> landscape.RunSummaryDocument:
    """Return what a run came to."""
    return await services.read(lambda view: landscape.run_summary(view, run_id))


@router.get("/runs/{run_id}/{report:landscape_report}")
async def run_report(run_id: RecordId, report: ReportName, services: Given) -> RunReportDocument:
    """Return a report on a run."""
    content = await services.read(lambda view: REPORTS[report](view, run_id))
    return {"run_id": run_id, "report": report, "content": content}


@router.post("/runs/{run_id}/seal")
async def seal_run(run_id: RecordId, services: Given) -> RunSealDocument | Response:
    """State the digests of a run that has ended on the log; a second time, answer with them."""
    stated = await services.read(lambda view: seal_to_state(view, run_id))
    return answered(await services.write(SealRunUnit(stated)))


@router.get("/explain")
async def explain(
    services: Given, record_id: _Text, run_id: _Text | None = None, sink: _Text | None = None
) -> landscape.ExplanationDocument:
    """Return what an id names, and the lineage of every token that it leads to."""
    return await services.read(
        lambda view: landscape.explain_token(view, record_id, run_id=run_id, sink=sink)
    )


@router.get("/activity")
async def activity(
    services: Given, minutes: Annotated[int, Query(ge=1, le=landscape.MINUTES_MAX)] = 60
) -> landscape.ActivityDocument:
    """Return the runs that began in the last minutes."""
    now_us = services.ledger.host.now_us()
    return await services.read(
        lambda view: landscape.recent_activity(view, now_us, minutes=minutes)
    )


@router.get("/diagnose")
async def diagnose(services: Given) -> landscape.DiagnosisDocument:
    """Return what needs attention among the newest runs."""
    now_us = services.ledger.host.now_us()
    return await services.read(lambda view: landscape.diagnose(view, now_us))
