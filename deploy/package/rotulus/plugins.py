"""Gives the names that an evaluator, an extractor, a model and an elimination store import."""

from actors.errors import ModelError
from actors.synthesis.model_client import ModelAnswer, ModelCall, ModelClient, ModelParameters
from kernel.belief.elimination_store import (
    EliminationProvenance,
    EliminationStore,
    RecoveredState,
    StoreResult,
)
from kernel.belief.errors import BeliefError
from kernel.ledger.ledger import LedgerView
from kernel.model.bindings.particulars import NONE_STATED, Particulars, Stretch
from kernel.model.extraction_result import ExtractionResult
from kernel.model.model_output import CapturedOutput
from kernel.records.source_artifacts import Artifact
from workers.worker.handlers.extractor import Extracted, Extractor, SourceToRead

__all__ = [
    "NONE_STATED",
    "Artifact",
    "BeliefError",
    "CapturedOutput",
    "EliminationProvenance",
    "EliminationStore",
    "Extracted",
    "ExtractionResult",
    "Extractor",
    "LedgerView",
    "ModelAnswer",
    "ModelCall",
    "ModelClient",
    "ModelError",
    "ModelParameters",
    "Particulars",
    "RecoveredState",
    "SourceToRead",
    "StoreResult",
    "Stretch",
]
