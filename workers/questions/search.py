"""Asks where a text occurs on the record, and what it names."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import Name
from workers.questions.question import Question
from workers.views.search import SearchResults, SearchSubject, named_subject, search_results


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """What a text names, and where it occurs."""

    named: SearchSubject | None
    """The one thing of this name; null where none has it, or several requests."""

    results: SearchResults


class Search(Question):
    """Find what a text names, or where it occurs: ids, items and tags by their beginnings, words.

    Every list is short; `are_all` says whether more requests fit.
    """

    paths: ClassVar = ("/v1/search",)

    text: Annotated[Name, Field(description="An id, a key, a tag as `customer=acme`, words.")]

    def answer(self, view: ReadableView) -> SearchDocument:
        """Return what has the text."""
        return SearchDocument(named_subject(view, self.text), search_results(view, self.text))

    def summary(self, document: Any) -> str:
        """Return what the text names, and in how many ways it occurs."""
        named, results = document["named"], document["results"]
        what = "names nothing" if named is None else f"names the {named['kind']} {named['name']}"
        ways = [name.replace("_", " ") for name, rows in results.items() if rows]
        return f"{what}; occurs in {', '.join(ways) or 'nothing'}"
