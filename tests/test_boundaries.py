"""Clock, environment and randomness are taken where processes begin, and handed in elsewhere.

What is computed from them can then be computed again by a test. import-linter cannot say it: it
is not the modules `os` and `time` that are kept out, but some of their functions.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("kernel", "queues", "actors", "workers")

TAKING = frozenset(
    {
        *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
        *(f"time.perf_counter{suffix}" for suffix in ("", "_ns")),
        *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
        *("os.environ", "os.getenv", "os.putenv", "os.urandom"),
        *("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4"),
    }
)
TAKING_MODULES = frozenset({"secrets", "random"})

ALLOWED_FOLDERS = (
    "workers/environment/",
    "workers/worker/",
    "workers/process_tree/",
    "queues/embedded/",
)
"""What a process gets from its machine, and what runs processes."""

MEASURING = "measures how long something took"
SPAN_TIMES = "stamps a span"
DISTINCT = "names or salts what no other process may name so"

ALLOWED_FILES: Mapping[str, tuple[str, frozenset[str]]] = {
    "actors/commit/group_committer.py": (MEASURING, frozenset({"time.perf_counter", "time.sleep"})),
    "actors/sessions/runtime.py": (SPAN_TIMES, frozenset({"time.time_ns"})),
    "workers/client/access_key.py": (
        "a program's key, which its environment names",
        frozenset({"os.environ"}),
    ),
    "workers/client/blocking.py": (DISTINCT, frozenset({"secrets.token_hex"})),
    "workers/client/gateway_http.py": ("spreads clients", frozenset({"random.uniform"})),
    "workers/client/http_transport.py": (
        "whom a program trusts, which its environment names",
        frozenset({"os.environ"}),
    ),
    "workers/client/rotulus.py": (
        "a program's client, whose keys no other may have",
        frozenset({"os.environ", "secrets.token_hex"}),
    ),
    "workers/client/source_bindings.py": (DISTINCT, frozenset({"secrets.token_hex"})),
    "queues/redis/dropped.py": ("limits how often it logs", frozenset({"time.monotonic"})),
    "queues/gateways/message_seal.py": (DISTINCT, frozenset({"secrets.token_bytes"})),
    "queues/gateways/shard_leases.py": (DISTINCT, frozenset({"secrets.token_hex"})),
    "queues/gateways/shard_mailboxes.py": (DISTINCT, frozenset({"secrets.token_hex", "time.time"})),
    "queues/queue/work_queue.py": (DISTINCT, frozenset({"secrets.token_hex"})),
    "workers/external_effects/event_file.py": (
        "waits for a file's lock",
        frozenset({"time.monotonic", "time.sleep"}),
    ),
    "workers/gateway/metrics.py": ("limits how often it reads", frozenset({"time.monotonic"})),
    "workers/plugins/elimination_store_conformance.py": (
        "a suite that an author runs by pytest",
        frozenset({"os.environ", "uuid.uuid4"}),
    ),
    "workers/pipelines/tools.py": ("hands a node's pause out", frozenset({"time.sleep"})),
    "workers/gateway/wiring.py": ("hands the clock out", frozenset({"time.monotonic"})),
    "workers/gateway/request_spans.py": (SPAN_TIMES, frozenset({"time.time_ns"})),
    "workers/implications/detecting_process.py": (
        "waits for the process that began it to go",
        frozenset({"time.sleep"}),
    ),
    "workers/telemetry/http_metrics.py": (MEASURING, frozenset({"time.perf_counter"})),
}
"""Other files that take from the machine: why, and what. Nothing on the record comes of it."""


@cache
def taken() -> Mapping[str, frozenset[str]]:
    """Return what each file of the product takes from its machine."""
    return {
        path.relative_to(ROOT).as_posix(): names
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if (names := frozenset(_taken_by(ast.parse(path.read_text()))))
    }


def _taken_by(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in TAKING or node.value.id in TAKING_MODULES:
                yield name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in names if name in TAKING or node.module in TAKING_MODULES)


def test_the_machine_is_asked_where_processes_begin():
    elsewhere = {
        path: names
        for path, names in taken().items()
        if not path.startswith(ALLOWED_FOLDERS)
        and not names <= ALLOWED_FILES.get(path, ("", frozenset()))[1]
    }
    assert elsewhere == {}


@pytest.mark.parametrize("path", ALLOWED_FILES)
def test_no_exception_outlives_its_need(path: str):
    assert taken().get(path, frozenset()) == ALLOWED_FILES[path][1]


def test_the_kernel_takes_nothing():
    assert [path for path in taken() if path.startswith("kernel/")] == []


def test_rows_of_the_ledger_are_read_by_named_queries():
    """`.tables` is the store: outside of the kernel it is asked for nothing."""
    outside = [
        path.relative_to(ROOT).as_posix()
        for package in ("queues", "actors", "workers")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "tables"
    ]
    assert outside == []


def test_what_is_shown_is_made_of_what_its_reader_may_read():
    """Views, questions, pages and tools are given a `ReadableView`, and open no other snapshot."""
    whole = {
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("views", "questions", "dashboard", "mcp", "api/routes")
        for path in sorted((ROOT / "workers" / room).rglob("*.py"))
        for name in _whole_snapshots_in(ast.parse(path.read_text()))
    }
    # Whether a row is damaged is no content.
    assert whole == {("workers/api/routes/quarantines.py", "ledger.read")}


def _whole_snapshots_in(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            yield from names & {"LedgerView", "LedgerTransaction"}
        elif isinstance(node, ast.Attribute) and node.attr in ("read", "view"):
            ledger = node.value
            if getattr(ledger, "attr", getattr(ledger, "id", "")) in ("ledger", "_ledger"):
                yield f"ledger.{node.attr}"


def test_what_runs_inside_a_transaction_of_the_kernel_is_a_unit_of_the_commit_layer():
    units = {
        (path.relative_to(ROOT).as_posix(), node.name)
        for package in ("queues", "actors", "workers")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and _runs_in_a_commit(node)
    }
    assert len(units) > 15
    misplaced = {
        (path, name)
        for path, name in units
        if not (path.startswith("actors/commit/") and path.endswith("units.py"))
        or not name.endswith("Unit")
    }
    assert misplaced == set()


def test_the_context_of_a_commit_is_named_in_the_commit_layer_alone():
    naming = {
        path.relative_to(ROOT).as_posix()
        for package in ("queues", "actors", "workers")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "CommitContext" in path.read_text()
    }
    assert "actors/commit/unit_context.py" in naming
    assert [path for path in naming if not path.startswith("actors/commit/")] == []


BY_TEXT = frozenset({"getattr", "hasattr", "setattr", "delattr", "attrgetter", "patch", "object"})
"""Functions that are given the name of an attribute as a text."""


def test_no_test_names_what_a_module_keeps_to_itself():
    """The linter sees attributes (SLF001); here are imports, and names that stand in texts.

    What a package of others keeps to itself is the affair of whoever tests against it.
    """
    naming = {
        path.relative_to(ROOT).as_posix(): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (names := [*_private_names(ast.parse(path.read_text()))])
    }
    assert naming == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from kernel.ledger import _rows, rows", ["_rows"]),
        ("from kernel import __version__", []),
        ("patch.setattr('kernel.ledger._ROWS_MAX', 1)", ["_ROWS_MAX"]),
        ("monkeypatch.setattr(sqlite, '_rows', rows)", ["_rows"]),
        ("getattr(store, '_writer')", ["_writer"]),
        ("patch.setattr('fastapi.routing._route', 1)", []),
        ("from psycopg import _queries", []),
        ("print('_rows')", []),
    ],
)
def test_a_private_name_is_seen_in_an_import_and_in_a_text(source: str, names: list[str]):
    assert [*_private_names(ast.parse(source))] == names


def _private_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) in BY_TEXT:
            texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            names = [text for text in texts if isinstance(text, str)]
        for path in names:
            place, _, name = path.rpartition(".")
            is_private = name.startswith("_") and not name.endswith("__")
            if is_private and place.partition(".")[0] in ("", *PACKAGES, "tests"):
                yield name


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def _runs_in_a_commit(node: ast.ClassDef) -> bool:
    return any(
        isinstance(method, ast.FunctionDef)
        and method.name == "run"
        and any(_is_commit_context(argument.annotation) for argument in method.args.args)
        for method in node.body
    )


def _is_commit_context(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation) == "CommitContext"


ROOMS_MAX = 19
ROOMS = {
    "kernel": (19, 110, ()),
    "actors": (8, 27, ("error_codes.py", "errors.py", "messages.py", "supervision.py")),
    "queues": (6, 13, ("errors.py",)),
    "workers": (24, 82, ("__main__.py",)),
}
"""Rooms of a package, pairs of rooms of which one imports the other, and files that lie in no room;
all three only go down."""


def rooms_of_imports(package: str, path: Path) -> Iterator[str]:
    for part in ast.walk(ast.parse(path.read_text())):
        if isinstance(part, ast.ImportFrom) and part.module is not None:
            named, _, rest = part.module.partition(".")
            if named == package and rest:
                yield rest.partition(".")[0]
            elif named == package:
                yield from (name.name for name in part.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_few_rooms_few_arrows_and_hardly_a_loose_module(package: str):
    rooms_max, arrows_max, loose = ROOMS[package]
    folder = ROOT / package
    assert sorted(path.name for path in folder.glob("*.py")) == sorted(("__init__.py", *loose))
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert len(rooms) <= rooms_max
    arrows = {
        (path.relative_to(folder).parts[0].removesuffix(".py"), room)
        for path in folder.glob("**/*.py")
        for room in rooms_of_imports(package, path)
    }
    assert len([1 for room, imported in arrows if room != imported]) <= arrows_max
