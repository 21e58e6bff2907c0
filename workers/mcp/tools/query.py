"""Defines the tools of SQL: one bounded SELECT on the ledger's tables, and their list."""

from dataclasses import asdict
from typing import Annotated, ClassVar

from pydantic import Field

from kernel.ledger.ad_hoc_query import (
    POSTGRES_FUNCTIONS,
    SQL_CHARS_MAX,
    SQLITE_FUNCTIONS,
    QueryBounds,
    table_documents,
)
from workers.environment.ledger_access import file_of
from workers.mcp.tool import Document, Tool, ToolContext, existing
from workers.questions.fields import Name

ROWS_MAX = 200
BYTES_MAX = 24_000
SECONDS_MAX = 3.0


class RunQuery(Tool):
    """Run one SELECT (also WITH, VALUES) on the ledger's tables, read-only.

    Give each column its own name. Columns of bytes hold JSON: on SQLite
    `CAST(record AS TEXT) ->> '$.payload.title'`, on PostgreSQL
    `convert_from(record, 'UTF8')::jsonb -> 'payload' ->> 'title'`. At most 200 rows, 24 kB and
    3 s; use a keyset (`WHERE id > …`) for more. The other tools say what rows mean; use this for
    what they do not answer. The tables `landscape_…` have the runs of pipelines and none of the
    runtime's own (`runtime:…`): name one of those as `run_id` to ask its records alone.
    """

    action: ClassVar[str] = "query.records"
    sql: Annotated[str, Field(min_length=1, max_length=SQL_CHARS_MAX)]
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 50
    run_id: Annotated[
        Name | None,
        Field(
            description="A run of the runtime: the statement is SQLite's and sees the tables"
            " landscape_… with the records of that run alone."
        ),
    ] = None

    async def result(self, context: ToolContext) -> Document:
        """Return rows as lists, in the order of `columns`."""
        bounds = QueryBounds(self.limit, BYTES_MAX, SECONDS_MAX)
        answer = await context.query(self.sql, bounds, run_id=self.run_id)
        cut = f", cut by {answer.cut_by}: there are more" if answer.cut_by else ""
        return {"summary": f"{len(answer.rows)} rows{cut}", **asdict(answer)}


class DescribeSchema(Tool):
    """List the tables and functions for `query`; of one table its columns and key.

    With `run_id` a query has the tables `landscape_…` and the functions of SQLite.
    """

    action: ClassVar[str] = "query.records"
    table: Name | None = None

    async def result(self, context: ToolContext) -> Document:
        """Return the tables, or one."""
        documents = table_documents()
        if self.table is None:
            names = {document["table"]: document["owner"] for document in documents}
            is_file = file_of(context.place) is not None
            dialect = "SQLite" if is_file else "PostgreSQL"
            return {
                "summary": f"{len(names)} tables of {dialect}, each with its owner",
                "tables": names,
                "functions": sorted(SQLITE_FUNCTIONS if is_file else POSTGRES_FUNCTIONS),
                "functions_with_run_id": "as above" if is_file else sorted(SQLITE_FUNCTIONS),
            }
        named = [document for document in documents if document["table"] == self.table]
        return {"summary": self.table, **existing(named[0] if named else None, self.table)}
