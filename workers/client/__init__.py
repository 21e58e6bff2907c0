"""The client of a gateway, for producers above all; the wheel `rotulus-client` is this folder.

It imports httpx, anyio and the standard library, itself by relative names (decision queues/0075).
"""

from .blocking import BlockingJob, BlockingRotulus
from .contents import BindingEvaluation, ExtractionTask, ExtractionTransition, JobContent
from .enqueue_stream import EnqueueStream
from .errors import GatewayError, JobLost
from .jobs import Job, JobOutcome, JobStatus
from .log_proofs import LogProofs, NotWitnessed, TreeHead, WitnessedRow
from .merkle_proofs import LogProofInvalid
from .records import Records
from .requests import NewRequest
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
    "JobContent",
    "JobLost",
    "JobOutcome",
    "JobStatus",
    "LogProofInvalid",
    "LogProofs",
    "NewRequest",
    "NotWitnessed",
    "OperationOutcome",
    "Records",
    "Rotulus",
    "SessionOperations",
    "SourceBindings",
    "TreeHead",
    "WitnessedRow",
]
