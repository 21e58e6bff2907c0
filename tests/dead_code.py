"""Finds functions, classes, properties and constants of the product that nothing in it names.

python -m tests.dead_code

Tests are no use of a name. Fields are not looked at: most are there for whoever reads a document.
"""

import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

import vulture
from vulture.core import Item

ROOT = Path(__file__).parent.parent
PRODUCT = ("actors", "kernel", "queues", "workers")
GENERATED = ["*_pb2*.py"]

CALLED_BY_DECORATOR = (
    *("@router.*", "@app.*", "@*.command", "@*.group", "@*.result_callback"),
    *("@model_validator", "@field_validator", "@field_serializer", "@model_serializer"),
)

MEANT: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "a library calls it": frozenset(
            {
                *("read_from_socket", "connection_made", "data_received", "capture_signals"),
                *("list_commands", "get_command", "format_commands", "auth_flow", "readinto"),
                *("intercept_service", "collect", "handle_error", "address_string", "log_message"),
                *("downgrade", "__call__", "dump", "pack_command"),
                *("handle_starttag", "handle_endtag", "handle_data", "main_loop"),
            }
        ),
        "tee.proto names it": frozenset(
            {
                *("MergeHypothesis", "CreateIncident", "GetIncidentContext", "GetLiveView"),
                *("MergeNodeTombstones", "MergeEdgeTombstones", "GetTombstones", "GetMainGraph"),
            }
        ),
        "a client or a plug-in calls it": frozenset({"pipeline_queue", "test_*"}),
        "a test of a user's own jobs calls it": frozenset(
            {"taking", "assert_enqueued", "assert_not_enqueued"}
        ),
        "a specification names it, and plug-ins are tested beside it": frozenset({"InMemoryStore"}),
        "a text names it": frozenset({"_header", "arguments_digest"}),
        "a script has it as well, and a promise names it": frozenset({"CAUSES_KEPT_MAX"}),
        "it makes a committed file": frozenset({"openapi_document"}),
        "no door shows it, and tests hold it to a bound or to another": frozenset(
            {"active_sessions", "active_bytes", "core_state", "survivors_hash"}
        ),
    }
)
"""Patterns of names by the reason for which nothing here names them."""


def unused() -> Iterator[Item]:
    """Yield what nothing in the product names."""
    finder = vulture.Vulture(ignore_decorators=[*CALLED_BY_DECORATOR])
    finder.scavenge([str(ROOT / package) for package in PRODUCT], exclude=GENERATED)
    for item in finder.get_unused_code():
        is_field = item.typ in ("attribute", "variable") and not item.name.isupper()
        if not is_field:
            yield item


def main() -> int:
    """Print what is unused, and each pattern that nothing unused matches; return 1 for either."""
    patterns = {pattern for names in MEANT.values() for pattern in names}
    matched = set[str]()
    complaints = []
    for item in unused():
        meant = {pattern for pattern in patterns if fnmatchcase(item.name, pattern)}
        matched |= meant
        if not meant:
            place = Path(item.filename).relative_to(ROOT)
            complaints.append(f"{place}:{item.first_lineno}: nothing names {item.name}")
    complaints += [f"{pattern} is meant, and used or not there" for pattern in patterns - matched]
    sys.stdout.writelines(f"{complaint}\n" for complaint in sorted(complaints))
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
