"""The client of a gateway, for producers above all; the wheel `rotulus-client` is this folder.

It imports httpx, anyio and the standard library, itself by relative names (decision queues/0075).
"""

from .blocking import BlockingJob, BlockingRotulus
from .contents import BindingEvaluation, ExtractionTask, ExtractionTransition, JobContent
from .enqueue_stream import EnqueueStream
from .errors import GatewayError, JobLost
from .jobs import (
    Job,
    JobAttempt,
    JobFailed,
    JobFailures,
    JobOutcome,
    JobResultInvalid,
    JobStatus,
    ProgressNote,
)
from .log_proofs import LogProofs, NotWitnessed, TreeHead, WitnessedRow
from .merkle_proofs import LogProofInvalid
from .records import Records
from .requests import JobRequest, NewRequest
from .rotulus import Rotulus
from .session_operations import OperationOutcome, SessionOperations
from .source_bindings import SourceBindings

__all__ = [
    "BindingEvaluation",
    "BlockingJob",
    "BlockingRotulus",
    "EnqueueStream",
    "ExtractionTask",
    "ExtractionTransition",
    "GatewayError",
    "Job",
    "JobAttempt",
    "JobContent",
    "JobFailed",
    "JobFailures",
    "JobLost",
    "JobOutcome",
    "JobRequest",
    "JobResultInvalid",
    "JobStatus",
    "LogProofInvalid",
    "LogProofs",
    "NewRequest",
    "NotWitnessed",
    "OperationOutcome",
    "ProgressNote",
    "Records",
    "Rotulus",
    "SessionOperations",
    "SourceBindings",
    "TreeHead",
    "WitnessedRow",
]
