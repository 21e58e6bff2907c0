"""Names are data: no database guards them, so verification asks the registry (K30, kernel/0188).

A row of a version that this program does not have, a name that its version does not have, and a
receipt that says what its kind does not, are findings: a newer program, or nobody, wrote them.
"""

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.model.lite import LITE_INTENT
from kernel.transaction.apply import Rules
from kernel.transaction.rules import rules_of, unknown_version
from kernel.verify.reading import Document, Reader, Rule, printable


def row_rules(reader: Reader, sequence: int, document: Document) -> Rules | None:
    """Return the rules of a log row; None where they are not known, which is a finding."""
    version = document.get("rules_version")
    rules = rules_of(version)
    if rules is None:
        message = unknown_version(version, f"row {sequence}")
        reader.findings.add(schema.kernel_event_log, sequence, "rules_unknown", message)
        return None
    message_of_name = unknown_row_name(document, rules)
    if message_of_name is not None:
        reader.findings.add(schema.kernel_event_log, sequence, "unknown_name", message_of_name)
    return rules


def unknown_row_name(document: Document, rules: Rules) -> str | None:
    """Say which name of a log row its version of the rules does not have."""
    intent = document.get("semantic_intent")
    if intent not in rules.verbs:
        return f"semantic_intent {printable(intent)} is no verb of version {rules.version}"
    kind = document.get("operation_kind")
    # A lite envelope keeps the kinds of version 1.5.
    if intent != LITE_INTENT and kind not in rules.operation_kinds:
        return f"operation_kind {printable(kind)} is none of version {rules.version}"
    return None


def unknown_effect_name(document: Document, rules: Rules) -> str | None:
    """Say which name of an applied effect its version of the rules does not have."""
    effects = rules.effects
    kind = document.get("effect_kind")
    if kind not in effects.kinds:
        return f"effect_kind {printable(kind)} is none of version {rules.version}"
    if document.get("canonical_kind") != effects.canonical_kind(str(kind)):
        return f"canonical_kind {printable(document.get('canonical_kind'))} is not that of {kind}"
    if document.get("store") not in effects.stores:
        return f"store {printable(document.get('store'))} is none of version {rules.version}"
    return None


def check_receipt(reader: Reader, table: Table, key: object, document: Document) -> bool:
    """Tell whether a receipt fits its kind by its version's rules; a misfit is a finding."""
    version = document.get("rules_version")
    rules = rules_of(version)
    if rules is None:
        message = unknown_version(version, f"receipt {key}")
        reader.findings.add(table, key, "rules_unknown", message)
        return False
    problem = receipt_problem(document, rules)
    if problem is not None:
        reader.findings.add(table, key, *problem)
    return problem is None


def receipt_problem(document: Document, rules: Rules) -> tuple[Rule, str] | None:
    """Say what is wrong with a receipt by its version of the rules."""
    kind = document.get("receipt_kind")
    if kind not in rules.receipts.kinds:
        return "unknown_name", f"receipt_kind {printable(kind)} is none of version {rules.version}"
    problem = rules.receipts.problem(document)
    if problem is not None:
        field, message = problem
        return "body_invalid", f"{kind}: {field or 'the body'}: {message}"
    return None
