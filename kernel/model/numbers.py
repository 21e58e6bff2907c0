"""Bounds the numbers of models: each has a least and a most.

The record is in canonical form, which has integers up to 2^53 - 1 and every finite float. A model
that reads the record takes all of these, because the rules of a version read every row that was
recorded under it (K30). A submitted number is held to what its field measures, which is less
(decision kernel/0535): a sum over so many rows as there can ever be is then finite.

They are strict: a boolean is no number, and neither is a text that has digits.
"""

import sys
from typing import Annotated, Final

from pydantic import Field

from kernel.values.canonical import MAX_SAFE_INTEGER
from kernel.values.pressure import COST_MAX

SEQUENCE_MAX: Final = 2**63 - 1
"""The greatest integer that every store can compare with; where it is written it is a text."""

FLOAT_MAX: Final = sys.float_info.max
DURATION_MS_MAX: Final = 1e12
"""More than thirty years."""

DAYS_MAX: Final = 36_500
TOKENS_MAX: Final = 10**12
"""Tokens of one count of one answer."""

SPAN_CHARS_MAX: Final = 10**14

Integer = Annotated[int, Field(strict=True, ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_SAFE_INTEGER)]
PositiveCount = Annotated[int, Field(strict=True, ge=1, le=MAX_SAFE_INTEGER)]
"""A number of things, or a place in a row of them, from 1 on."""

SchemaVersion = Annotated[int, Field(strict=True, ge=1, le=1)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""A part of a whole: an authority, a confidence."""

Offset = Annotated[int, Field(strict=True, ge=0, le=SPAN_CHARS_MAX)]
Length = Annotated[int, Field(strict=True, ge=1, le=SPAN_CHARS_MAX)]
Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Cost = Annotated[float, Field(strict=True, ge=0, le=COST_MAX)]
"""A cost that somebody states, in the unit of `estimated_capacity_cost`."""

DurationMs = Annotated[float, Field(strict=True, ge=0, le=DURATION_MS_MAX)]

Finite = Annotated[float, Field(strict=True, ge=-FLOAT_MAX, le=FLOAT_MAX)]
"""On the record: any number that is one."""

NonNegative = Annotated[float, Field(strict=True, ge=0, le=FLOAT_MAX)]
"""On the record: any number that is one and is not below zero."""
