"""Finds functions, classes, properties and constants of the product that nothing in it names.

python -m tests.dead_code

Tests are no use of a name. Fields are not looked at: most are there for whoever reads a document.
A name that stands in several modules is used by another's use of it (vulture looks at names alone),
so what stands at the top of a module is looked for by its module as well.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

import vulture
from vulture.core import Item

from tests.parsed_modules import modules_below

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
                *("format_commands", "auth_flow", "readinto"),
                *("read_from_socket", "data_received", "capture_signals"),
                *("intercept_service", "collect", "handle_error", "address_string", "log_message"),
                *("downgrade", "__call__", "pack_command"),
                *("handle_starttag", "handle_endtag", "handle_data", "main_loop"),
            }
        ),
        "tee.proto names it": frozenset(
            {
                *("MergeHypothesis", "CreateIncident", "GetIncidentContext", "GetLiveView"),
                *("MergeNodeTombstones", "MergeEdgeTombstones", "GetTombstones", "GetMainGraph"),
            }
        ),
        "a client or a plug-in calls it": frozenset(
            {"pipeline_queue", "test_*", "workers.client.contents.*", "BlockingRotulus"}
        ),
        "the command line has its module by name": frozenset({"workers.cli.search.search"}),
        "a test of a user's own jobs calls it": frozenset(
            {"taking", "assert_enqueued", "assert_not_enqueued"}
        ),
        "a specification names it, and plug-ins are tested beside it": frozenset({"InMemoryStore"}),
        "a text names it": frozenset({"_header", "arguments_digest"}),
        "a script has it as well, and a promise names it": frozenset({"CAUSES_KEPT_MAX"}),
        "it makes a committed file": frozenset({"openapi_document"}),
        "no process calls it, and what they call is held to it": frozenset(
            {
                *("kernel.proof.eta_tree.eta_root", "kernel.proof.verification.verify_inclusion"),
                *("kernel.algebra.transitions.STATES", "queues.queue.priorities.PRIORITIES"),
                *("workers.dockets.fields.FIELDS", "workers.gateway.http_limits.REFUSALS"),
            }
        ),
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


def unused_of_modules() -> Iterator[str]:
    """Yield what stands at the top of a module and is named neither there nor by an import."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): tree
        for package in PRODUCT
        for path, tree in modules_below(package).items()
        if "versions" not in path.parts
    }
    named = {name for module, tree in modules.items() for name in _names_of_others(module, tree)}
    for module, tree in modules.items():
        own = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for name in _names_at_top(tree):
            is_named = name in own or name == "__all__" or f"{module}.{name}" in named
            if not is_named:
                yield f"{module}.{name}"


def _names_of_others(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports by name, and what it names of the modules that it imports."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            place = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{place}.{alias.name}"
    yield from imported.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{imported.get(node.value.id)}.{node.attr}"


def _names_at_top(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.decorator_list or isinstance(node, ast.ClassDef):
                yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def main() -> int:
    """Print what is unused, and each pattern that nothing unused matches; return 1 for either."""
    patterns = {pattern for names in MEANT.values() for pattern in names}
    matched = set[str]()
    complaints = []
    unused_names = [
        (item.name, f"{Path(item.filename).relative_to(ROOT)}:{item.first_lineno}")
        for item in unused()
    ]
    unused_names += [(name, "here or where it is imported") for name in unused_of_modules()]
    for name, place in unused_names:
        short = name.rpartition(".")[2]
        meant = {each for each in patterns if fnmatchcase(name, each) or fnmatchcase(short, each)}
        matched |= meant
        if not meant:
            complaints.append(f"{place}: nothing names {name}")
    complaints += [f"{pattern} is meant, and used or not there" for pattern in patterns - matched]
    sys.stdout.writelines(f"{complaint}\n" for complaint in sorted(complaints))
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
