"""Values, names and texts of JSON that somebody may not have thought of."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.fuzz.legal_request import SHARED

ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e17, 5e-324, 1e308, 2.0**53),
    *(2**31, 2**53, 2**53 + 1, -(2**53), 2**63 - 1, 2**63, 2**64, 10**30),
    *("", " ", "a", "5", "null", "NaN", "-1", "\x00", "a\x00b", "\ud800", "a\udfffb", "\U0001f600"),
    *(
        "a|b",
        "a.b",
        "a/b",
        "../../etc/passwd",
        "%00",
        "'; DROP TABLE nodes;--",
        "{{7*7}}",
        "\r\nX:y",
    ),
    *(
        "x" * 400,
        "x" * 401,
        "x" * 513,
        "é" * 512,
        "\u202e\u0301" * 100,
        "ﬁ\ufeff\u200b",
        "x" * 70_000,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        ["a"],
        [{}],
        {"a": 1},
        {"": {}},
        {"\x00": 1},
        {"\ud800": 1},
        ["\ud800"],
    ),
    *("n", "m", "topic", "source-shared", "cu-shared", "claim-shared", "edge", "binding", "PG-1"),
    *(
        "source-shared#0-9",
        "cu-shared#0-9",
        "n#-1-5",
        "n#0-99999999999999999999",
        "#",
        "n#",
        "n#a-b",
    ),
    *("source-shared#5-2", "source-shared#0-0", "source-shared#0-9#0-9", "n#\ud800-1"),
    *(
        "2026-02-30T00:00:00Z",
        "2026-02-09",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
    ),
    *("2026-02-09T24:00:00Z", "2026-02-09T00:00:60Z", "2026-02-09T00:00:00", "20260209T000000Z"),
    *(
        "sealed",
        "firewalled",
        "public_open",
        "recalculate_authority",
        "node_write",
        "user",
        "agent",
    ),
    *("orchestrator", "system", "1.6", "1.5", "ab" * 32, "AB" * 32, "zz" * 32, "op-first-attempt"),
    *SHARED[:2],
    "00000000-0000-0000-0000-000000000000",
)
_TOKENS: Final = (
    *("NaN", "Infinity", "-Infinity", "-0", "-0.0", "1e400", "-1e400", "1e-400", "9" * 400),
    *("9" * 5000, "0" * 5000, "1E308", "1.0", "1e2", "01", "+1", ".5", "1.", "0x10", "1_000"),
    *(
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\u0000"',
        '"\\x"',
        '"',
        "nul",
        "tru",
        "'a'",
        "//",
        "/**/1",
    ),
    *('{"a":1,"a":2}', '{"":""}', "[,]", "{,}", "[1,]", '{"a":1,}', '{"\\ud800":1}', "\ufeff1", ""),
)
"""JSON that few readers agree about, and JSON that is none."""

ODD_NAMES: Final = (
    *("", "undoes", "state", "visibility_class", "node_kind", "x", "\x00", "\ud800", "__proto__"),
    *("session_id", "epoch_id", "run_id", "supersedes", "capacity_override", "intent_digest"),
    *(
        "compensates_operation_id",
        "adjudicates_receipt_ids",
        "recorded_model_outputs",
        "source_refs",
    ),
    *(
        "content_node_ref",
        "read_set_versions",
        "actor_session_kind",
        "duration_ms",
        "schema_version",
    ),
)
PLACE: Final = "\ue000"
_DEPTHS: Final = (8, 31, 32, 33, 64, 200, 500, 900, 1100, 5000, 100_000)
_COUNTS: Final = (2, 65, 256, 257, 1000, 10_001, 50_000)


def places_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document, as its container and its key."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, item in items:
            yield container, key
            if isinstance(item, dict | list):
                waiting.append(item)


def odd_value(chance: Random, value: Any) -> Any:
    how = chance.randrange(10)
    if how == 0:
        return _nested(chance.choice(_DEPTHS[:6]), value)
    if how == 1 and isinstance(value, list | str):
        return value * min(chance.choice(_COUNTS[:5]), 100_000 // (len(value) or 1) + 1)
    if how == 2:
        return {
            f"{chance.choice(ODD_NAMES)}{place}": value for place in range(chance.choice((2, 70)))
        }
    # What was put into a document may be spoiled itself.
    return copy.deepcopy(chance.choice(ODD_VALUES))


def _nested(depth: int, value: Any) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def odd_token(chance: Random) -> str:
    return chance.choice(_TOKENS)


def deep(chance: Random) -> str:
    depth = chance.choice(_DEPTHS)
    opened, closed = chance.choice((("[", "]"), ('{"a":', "}"), ("[", ""), ("[{},", "]")))
    return opened * depth + "1" + closed * depth


def long_list(chance: Random) -> str:
    item = chance.choice(("1", '"a"', "{}", "null", "[]", '"n"', '"source-shared#0-1"'))
    return f"[{','.join([item] * chance.choice(_COUNTS))}]"


def odd_text(chance: Random) -> str:
    return chance.choice((odd_token, deep, long_list))(chance)
