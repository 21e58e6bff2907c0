"""The table of error codes against what the product raises, answers with and decides by."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from actors.error_codes import ERRORS
from kernel.belief.errors import BeliefCode, InputCode
from kernel.model.extraction_result import Code as ExtractionCode
from kernel.work.errors import Code as WorkCode
from tests import errors_doc
from tests.parsed_modules import ROOT, modules_below
from workers.api.errors import HTTP_ERRORS, RETRYABLE_STATUS
from workers.client.gateway_http import TRY_AGAIN
from workers.client.typed.gateway import NOT_TAKEN
from workers.worker.gateway_reports import ABSENCES, NO_ROOM

TABLE = ROOT / "actors" / "error_codes.py"

REJECTING = frozenset({"EffectInapplicable", "AuthorityInvalid", "SnapshotTooOld"})
"""Errors that the kernel turns into a rejection: their codes are reasons, not errors."""

REJECTING_CODES = frozenset({"receipt_body_invalid", "drain_endless"})
"""The same of single codes, whose errors are no errors elsewhere."""

NOT_CODED = frozenset(
    {"PydanticCustomError", "PydanticKnownError", "AssertionError", "_OwnRefused", "Refusal"}
)
"""Constructors whose first argument is no error code: Pydantic's kinds, reasons of refusals."""

BASES = frozenset({"kernel_error", "backup_failed", "data_folder_error", "supervisor_error"})
"""Codes of classes of which there are only others."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in ("kernel", "queues", "actors", "workers"):
        yield from modules_below(package).items()


def raised() -> Iterator[tuple[str, str]]:
    """Yield each code and the class or call that has it."""
    for _, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and node.name not in REJECTING:
                yield from ((code, node.name) for code in _class_codes(node))
            elif isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                yield from ((code, name) for code in _call_codes(node, name))


def _class_codes(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        named = any(isinstance(target, ast.Name) and target.id == "code" for target in targets)
        value = getattr(statement, "value", None)
        if named and isinstance(value, ast.Constant) and value.value:
            yield str(value.value)


def _call_codes(node: ast.Call, name: str) -> Iterator[str]:
    if name in REJECTING | NOT_CODED:
        return
    if name.endswith(("Error", "Refused", "Corrupt", "Unavailable", "Failed", "Differs")):
        for keyword in node.keywords:
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)
    takes_code = name.endswith(("Error", "Refused")) or name in {
        "_Refusal",
        "error_body",
        "refusal",
        "respond",
    }
    first = node.args[0] if node.args else None
    if takes_code and isinstance(first, ast.Constant) and _is_code(first.value):
        yield first.value


def _is_code(value: object) -> bool:
    return isinstance(value, str) and "_" in value and value.replace("_", "").isalnum()


def test_every_code_that_is_raised_is_in_the_table():
    missing = {
        (code, name)
        for code, name in raised()
        if code not in ERRORS and code not in BASES | REJECTING_CODES
    }
    assert missing == set()


def test_the_scan_finds_what_there_is_to_find():
    codes = {code for code, _ in raised()}
    assert {"mailbox_full", "SESSION_NOT_FOUND", "ledger_schema_older", "pipeline_full"} <= codes
    assert len(codes) > 100


def test_every_entry_is_raised_somewhere():
    texts = {
        node.value
        for path, module in modules()
        if path != TABLE
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(ERRORS) - texts == set()


@pytest.mark.parametrize("codes", [BeliefCode, ExtractionCode, InputCode, WorkCode])
def test_codes_that_types_list_are_in_the_table(codes):
    assert set(get_args(codes)) <= set(ERRORS)


def test_a_status_says_the_same_to_who_knows_no_codes():
    """A client may decide by the status alone (`gateway_http`)."""
    for code, meaning in ERRORS.items():
        if meaning.status is not None:
            assert meaning.is_retryable == (meaning.status in TRY_AGAIN), code
    assert RETRYABLE_STATUS < TRY_AGAIN


def test_what_the_framework_refuses_has_the_statuses_of_the_table():
    assert all(ERRORS[code].status == status for status, (code, _) in HTTP_ERRORS.items())


def test_who_decides_by_the_table_decides_so():
    assert {"gateway_full", "body_too_slow", "mailbox_full", "runtime_full"} <= NOT_TAKEN
    assert {"shard_unowned", "commit_failed"} <= NOT_TAKEN
    assert not {"reply_lost", "stale_epoch", "actor_failed", "ledger_unavailable"} & NOT_TAKEN
    assert {"unauthorized", "gateway_unreachable", "actor_failed", "reply_lost"} <= ABSENCES
    assert not {"refusals_too_many", "internal", "request_unprocessable"} & ABSENCES
    assert NO_ROOM < ABSENCES
    assert not {"actor_failed", "envelope_capacity_unavailable", "unauthorized"} & NO_ROOM


def test_the_document_says_what_the_table_says():
    written = (ROOT / "workers" / "api" / "REFERENCE.md").read_text()
    assert written == errors_doc.text(), "make errors"
