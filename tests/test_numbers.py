"""Every number that can be stated has a least and a most: in models, requests, tools and commands.

Models, routes and commands are found, not listed: whoever adds a number without a measure fails
here. A tool's arguments are a model, and so are the settings. A free JSON value (`JsonValue`,
`dict[str, Any]`) has no field of a number; its numbers are those of canonical form.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import click
import pytest
from pydantic import BaseModel

import actors
import kernel
import queues
import workers
from kernel.model.numbers import COST_MAX, SEQUENCE_MAX
from kernel.values.canonical import MAX_SAFE_INTEGER
from tests import openapi_doc
from tests.workers.cli.command import commands
from workers.cli.main import COMMANDS
from workers.mcp.tool import Tool

PACKAGES = (kernel, queues, actors, workers)
LEAST, MOST = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")

WHOLE_RECORD = {
    "AffectedSubgraphDescriptor.estimated_capacity_cost": "submitted as a `SubmittedScope`",
    "Envelope.duration_ms": "submitted as a `SubmittedEnvelope`",
    "PBEOperationReceiptLite.duration_ms": "of version 1.5; what takes its place is submitted",
    "CapacityLease.estimated_cost": "repeats what an envelope of the log states",
    "CapacityShort.estimated_cost": "repeats what an envelope of the log states",
    "CapacityShort.cost_remaining": "read of a lease by the kernel",
    "CapacityOverridden.estimated_cost": "repeats what an envelope of the log states",
    "CapacityOverridden.cost_remaining": "read of a lease by the kernel",
    "EnvelopeRefused.cost_remaining": "read of a lease by the kernel",
    "ConflictToReview.cost_remaining": "read of a lease by the kernel",
    "ImplicationCycleExceeded.cost_remaining": "read of a lease by the kernel",
    "PreviewState.estimated_capacity_cost": "repeats the estimate of a simulation",
    "WorkRequested.delay_s": "repeats a request, which has `DELAY_S_MAX`",
    "MembershipChangePreview.relevance_score": "shown of a prediction; nothing relies on it",
}
"""Fields that may hold any finite number, because the record may: nobody submits them."""


@cache
def models() -> tuple[type[BaseModel], ...]:
    """Every model of the four packages, whether or not anything imports it."""
    for package in PACKAGES:
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    names = {package.__name__ for package in PACKAGES}
    known = {model for model in _below(BaseModel) if model.__module__.split(".")[0] in names}
    return tuple(sorted(known, key=lambda model: (model.__name__, model.__module__)))


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for model in kind.__subclasses__():
        yield model
        yield from _below(model)


def numbers(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schemas of numbers in a JSON Schema, without what it refers to."""
    if isinstance(schema, list):
        for part in schema:
            yield from numbers(part)
    elif isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield schema
        for name, part in schema.items():
            if name not in ("$defs", "default", "const", "enum", "examples"):
                yield from numbers(part)


@cache
def fields() -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Each number of each field of each model, by the names of both."""
    return tuple(
        (f"{model.__name__}.{name}", number)
        for model in models()
        for name, schema in _shape(model).items()
        for number in numbers(schema)
    )


def _shape(model: type[BaseModel]) -> dict[str, Any]:
    """The schemas of a model's fields, and of the types in them that are no models."""
    schema = model.model_json_schema()
    known = schema.get("$defs", {})
    whole = known[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    names = {each.__name__ for each in models()}
    return whole.get("properties", {}) | {name: known[name] for name in known.keys() - names}


def is_measured(schema: Mapping[str, Any]) -> bool:
    if "const" in schema or "enum" in schema:
        return True
    return any(name in schema for name in LEAST) and any(name in schema for name in MOST)


def ends_of(schema: Mapping[str, Any]) -> tuple[float, float]:
    stated = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if stated is not None:
        return min(stated), max(stated)
    least, most = (
        next(schema[name] for name in names if name in schema) for names in (LEAST, MOST)
    )
    return least, most


def test_models_are_found():
    names = {model.__name__ for model in models()}
    assert {"Envelope", "SubmittedEnvelope", "CreateClaim", "Settings", "SumCosts"} <= names
    assert {"KernelCostGovernance", "WorkFinished", "ExtractionTask", "FindOperations"} <= names
    assert len([model for model in models() if issubclass(model, Tool)]) > len(COMMANDS)
    assert len(fields()) > 100


@pytest.mark.spec("INV-A-COST-1")
def test_every_number_of_every_model_has_a_least_and_a_most():
    assert {place for place, number in fields() if not is_measured(number)} == set()


def test_a_number_is_held_to_what_it_measures_and_not_to_what_a_float_can_be():
    beyond = {
        place
        for place, number in fields()
        if max(map(abs, ends_of(number))) > MAX_SAFE_INTEGER
        and max(map(abs, ends_of(number))) != SEQUENCE_MAX
    }
    assert beyond == WHOLE_RECORD.keys()


def test_a_cost_that_is_submitted_has_the_most_that_a_lease_has():
    costs = {place: ends_of(number) for place, number in fields() if "capacity_cost" in place}
    assert costs["SubmittedScope.estimated_capacity_cost"] == (0, COST_MAX)


def test_every_number_of_a_request_has_a_least_and_a_most():
    document = openapi_doc.document()
    known: Mapping[str, Any] = document["components"]["schemas"]

    def unmeasured(schema: Any, seen: frozenset[str] = frozenset()) -> Iterator[Any]:
        yield from (number for number in numbers(schema) if not is_measured(number))
        for name in referred(schema) - seen:
            yield from unmeasured(known[name], seen | {name})

    schemas = {
        (method, path, place): schema
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for place, schema in [
            *((part["name"], part["schema"]) for part in operation.get("parameters", ())),
            ("body", operation.get("requestBody", {})),
        ]
    }
    assert len(schemas) > 200
    assert {place for place, schema in schemas.items() if [*unmeasured(schema)]} == set()


def referred(schema: Any) -> frozenset[str]:
    """The names that a schema refers to."""
    if isinstance(schema, list):
        return frozenset().union(*map(referred, schema))
    if not isinstance(schema, dict):
        return frozenset()
    own = {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else set()
    return frozenset(own).union(*map(referred, schema.values()))


FAR = 10**30


@pytest.mark.parametrize("sign", [1, -1])
def test_every_number_of_a_command_has_a_least_and_a_most(sign):
    known = {
        (*path, parameter.name): parameter
        for name in COMMANDS
        for path, command in commands(name)
        for parameter in command.params
    }
    assert len(known) > 200
    taken = set()
    for name, parameter in known.items():
        for text in (f"{sign * FAR}", f"{sign * FAR}d", "inf", "nan"):
            try:
                value = parameter.type.convert(text, parameter, None)
            except click.BadParameter:
                continue
            if isinstance(value, int | float):
                taken.add((name, text))
    assert taken == set()
