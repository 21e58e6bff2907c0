"""Where something came from and who may see it are two things (INV-PROV-TAINT-1, §7.6)."""

import pytest

from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    FakeHost,
    adapt,
    code_of,
    create,
    drawn_from,
    effect,
    envelope,
    link,
    memory_ledger,
    spans,
    submit,
    taking,
    twin,
    unlink,
)
from tests.kernel.every import binding

UNDERSTANDING = "ConsolidatedUnderstanding"
LOWERED = "visibility_class_lowered"
RESOLUTION = "envelope_taint_resolution_invalid"
OUTPUT = "envelope_taint_output_node_mismatch"
CLASSES = ("public_open", "work_product_internal", "firewalled", "sealed")

pytestmark = pytest.mark.spec("INV-PROV-TAINT-1")


def span(ref):
    return {"source_ref": ref, "offset": 0, "length": 1}


NAMING = [
    {"source_spans": [span("open"), span("secret")]},
    {"source_spans": [{"source_ref": "secret"}]},
    {"source_spans": [span("secret#0-9")]},
    {"source_spans": [span("secret#0-9#2-3")]},
    {"span": span("secret")},
    {"source_refs": ["open", "secret"]},
    {"source_refs": ["secret#0-9"]},
    {"source_ref": "secret"},
]


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    results = submit(
        ledger,
        create("open", "Note", content="open"),
        create("secret", "Note", visibility_class="firewalled", content="a secret"),
        create("note", "Note"),
        drawn_from(
            create("cu", UNDERSTANDING, **spans("secret"), visibility_class="firewalled"),
            "firewalled",
        ),
    )
    assert [code_of(result) for result in results] == [None] * 4
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


def class_of(ledger, node_id):
    with ledger.view() as view:
        return view.node(node_id)["visibility_class"]


def reclassify(node_id, visibility):
    return envelope(
        "visibility_change", [effect("visibility_change", node_id, visibility_class=visibility)]
    )


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("visibility", CLASSES)
def test_a_new_node_is_no_less_restricted_than_what_it_was_drawn_from(ledger, naming, visibility):
    document = create("n", "Note", visibility_class=visibility, **naming)
    assert code_of(submit(ledger, document)) == RESOLUTION
    classes = sorted({"firewalled", visibility}, key=CLASSES.index)
    result = submit(ledger, drawn_from(document, *classes))
    enough = visibility in ("firewalled", "sealed")
    assert code_of(result) == (None if enough else OUTPUT)


@pytest.mark.parametrize("naming", NAMING)
def test_a_node_cannot_take_up_a_source_that_is_more_restricted(ledger, naming):
    assert code_of(submit(ledger, adapt("note", **naming))) == RESOLUTION
    assert code_of(submit(ledger, drawn_from(adapt("note", **naming), "firewalled"))) == OUTPUT
    raised = drawn_from(adapt("note", visibility_class="sealed", **naming), "firewalled", "sealed")
    assert code_of(submit(ledger, raised)) is None


@pytest.mark.parametrize("visibility", CLASSES)
def test_a_change_of_class_stays_above_the_sources(ledger, visibility):
    result = submit(ledger, reclassify("cu", visibility))
    enough = visibility in ("firewalled", "sealed")
    assert code_of(result) == (None if enough else LOWERED)
    assert class_of(ledger, "cu") == (visibility if enough else "firewalled")


def test_a_class_is_raised_independently_of_the_sources(ledger):
    assert code_of(submit(ledger, reclassify("note", "work_product_internal"))) is None
    assert class_of(ledger, "note") == "work_product_internal"
    assert class_of(ledger, "open") == "public_open"


@pytest.mark.spec("§7.6")
@pytest.mark.parametrize("raised", ["firewalled", "sealed"])
@pytest.mark.parametrize("lowered", CLASSES)
def test_a_class_is_lowered_down_to_that_of_the_sources_and_no_further(ledger, raised, lowered):
    submit(ledger, reclassify("cu", raised))
    result = submit(ledger, reclassify("cu", lowered))
    enough = lowered in ("firewalled", "sealed")
    assert code_of(result) == (None if enough else LOWERED)
    assert class_of(ledger, "cu") == (lowered if enough else raised)


@pytest.mark.spec("§7.6")
def test_who_has_read_the_node_itself_lowers_its_class(ledger):
    assert code_of(submit(ledger, reclassify("note", "sealed"))) is None
    lowering = reclassify("note", "public_open") | {"read_set_refs": ["note"]}
    assert code_of(submit(ledger, lowering)) is None
    assert class_of(ledger, "note") == "public_open"


@pytest.mark.spec("§7.6")
def test_what_an_operation_cited_restricts_the_node_that_it_wrote(ledger):
    cited = drawn_from(
        adapt("note", visibility_class="firewalled") | {"source_refs": ["secret"]}, "firewalled"
    )
    assert code_of(submit(ledger, cited)) is None
    assert code_of(submit(ledger, reclassify("note", "work_product_internal"))) == LOWERED
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, cited["operation_id"])
    assert class_of(ledger, "note") == "public_open"


@pytest.mark.spec("§7.6", "§5.2")
def test_no_undoing_leaves_a_node_below_its_sources(ledger):
    raising = reclassify("drawn", "sealed")
    submit(ledger, create("drawn", "Note", source_refs=["open"]), raising)
    submit(ledger, reclassify("open", "firewalled"))
    with pytest.raises(RollbackRefused) as caught, ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, raising["operation_id"])
    assert caught.value.details["reason_code"] == LOWERED
    assert class_of(ledger, "drawn") == "sealed"


@pytest.mark.spec("§7.6", "§5.2")
def test_what_a_source_became_later_holds_no_other_undoing_up(ledger):
    titled = adapt("drawn", title="t")
    submit(ledger, create("drawn", "Note", source_refs=["open"]), titled)
    submit(ledger, reclassify("open", "sealed"))
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, titled["operation_id"])
    assert class_of(ledger, "drawn") == "public_open"


def test_a_class_is_not_raised_to_less_than_a_source_has_by_now(ledger):
    submit(ledger, create("drawn", "Note", source_refs=["open"]), reclassify("open", "sealed"))
    assert code_of(submit(ledger, reclassify("drawn", "firewalled"))) == LOWERED
    assert code_of(submit(ledger, reclassify("drawn", "sealed"))) is None


def test_what_a_source_became_later_holds_no_other_write_up(ledger):
    submit(ledger, create("drawn", "Note", source_refs=["open"]), reclassify("open", "sealed"))
    assert code_of(submit(ledger, adapt("drawn", title="t"))) is None
    assert class_of(ledger, "drawn") == "public_open"


REMOVALS = {
    "the span is no longer named": adapt("cu", **spans("open")),
    "the source is retracted": taking("retract", "secret", "edge"),
    "the binding is disabled": envelope(
        "source_binding_disable", [effect("node_write", "binding", state="disabled")]
    ),
    "the edge is removed": unlink("edge"),
    "the binding is detached": envelope(
        "detach_source_binding", [effect("detach_source_binding", "edge")]
    ),
}


@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
def test_removing_the_provenance_relaxes_nothing(ledger, removal):
    submit(ledger, link("edge", "secret", "cu"))
    bound = link("e:binding", "binding", "cu")["primitive_effects"]
    made = [effect("node_write", "binding", node_kind="SourceBinding"), *bound, binding(1)]
    assert code_of(submit(ledger, envelope("source_binding_create", made))) is None
    assert code_of(submit(ledger, removal)) is None
    assert class_of(ledger, "cu") == "firewalled"
    for lower in ("public_open", "work_product_internal"):
        assert code_of(submit(ledger, reclassify("cu", lower))) == LOWERED
        assert code_of(submit(ledger, adapt("cu", visibility_class=lower))) == LOWERED
    assert class_of(ledger, "cu") == "firewalled"
