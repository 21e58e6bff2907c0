"""Asks for source bindings, and for what they made of an event."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.audit.manifests import ManifestDocument, manifest_of_cycle, manifests_of
from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.access.readable_view import ReadableView
from kernel.records.bindings import GENERATION_ID
from workers.questions.fields import Name, PageByName, PageByNumber
from workers.questions.question import Question, existing
from workers.views.audit import ManifestPageDocument, manifests_document
from workers.views.binding_activity import BindingActivityDocument, binding_view
from workers.views.bindings import (
    BindingDocument,
    BindingPageDocument,
    describe_binding,
    list_bindings,
)

BINDINGS_MAX = 100
"""Bindings of one page, of each of which the pairs are counted."""


class ListBindings(PageByName):
    """List source bindings: what each means, its state, and how many pairs are in which state."""

    paths: ClassVar = ("/v1/bindings",)
    subject: ClassVar = "bindings"
    rows: ClassVar = "bindings"
    place: ClassVar = "binding_id"

    limit: Annotated[int, Field(ge=1, le=BINDINGS_MAX, description="At most so many rows.")] = 20

    def answer(self, view: ReadableView) -> BindingPageDocument:
        """Return a page of bindings."""
        return list_bindings(view, self.after or None, self.limit)


class GetBinding(Question):
    """Show a source binding with the generation in force, or an earlier one and its successor."""

    paths: ClassVar = ("/v1/bindings/{binding_id:path}",)
    subject: ClassVar = "bindings"

    binding_id: Name
    generation: Annotated[
        str | None,
        Field(pattern=GENERATION_ID, description="An earlier generation, as 1."),
    ] = None

    def answer(self, view: ReadableView) -> BindingDocument:
        """Return the binding."""
        name, generation = self.binding_id, self.generation
        kind = "binding" if generation is None else f"generation {generation} of a binding"
        return existing(describe_binding(view, name, generation), kind, name)

    def summary(self, document: Any) -> str:
        """Return its state and title."""
        return f"{document['state']}: {document['title'] or 'no title'}"


class GetBindingActivity(Question):
    """Show what a binding made of the newest events: what it fired on, and why it did not fire.

    The newest manifests are looked at, so this is no history; `list_manifests` has an event's.
    """

    paths: ClassVar = ("/v1/audit/binding-activity/{binding_id:path}",)
    subject: ClassVar = "audit"

    binding_id: Name

    def answer(self, view: ReadableView) -> BindingActivityDocument:
        """Return what it came to, by reason, and the newest of each."""
        activity = binding_view(view, self.binding_id)
        return existing(activity, "binding", self.binding_id).document()

    def summary(self, document: Any) -> str:
        """Return how often it fired."""
        looked_at = document["manifests_looked_at"]
        reasons = [f"{each['times']} times: {each['why']}" for each in document["reasons"]]
        return f"in the newest {looked_at} manifests: {'; '.join(reasons) or 'not evaluated'}"


class ListManifests(PageByNumber):
    """Show what bindings made of a source event, a manifest for each cycle of evaluation."""

    paths: ClassVar = ("/v1/audit/manifests/{source_event_id:path}",)
    subject: ClassVar = "audit"
    rows: ClassVar = "manifests"
    place: ClassVar = "cycle"

    source_event_id: Name

    def answer(self, view: ReadableView) -> ManifestPageDocument:
        """Return a page of manifests."""
        return manifests_document(
            manifests_of(view, self.source_event_id, after=self.after, limit=self.limit)
        )


class GetManifest(Question):
    """Show what bindings made of a source event in one cycle of evaluation."""

    subject: ClassVar = "audit"

    source_event_id: Name
    cycle: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]

    def answer(self, view: ReadableView) -> ManifestDocument:
        """Return the manifest."""
        return manifest_of_cycle(view, self.source_event_id, self.cycle).document()

    def summary(self, document: Any) -> str:
        """Return how many bindings were evaluated."""
        manifest = document["manifest"]
        return "erased" if manifest is None else f"{len(manifest['binding_outcomes'])} outcomes"
