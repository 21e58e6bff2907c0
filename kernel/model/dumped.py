"""Defines the form of what a model dumps, for documents that hold such a dump."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class DumpOf:
    """Metadata of a dictionary: it has the fields of a model; `Annotated[Document, DumpOf(M)]`."""

    model: Any

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let the JSON schema of the dictionary be the model's."""
        return handler.generate_schema(self.model)
