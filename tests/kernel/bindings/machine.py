"""The steps that state machines over bindings share: submit, disable, revert, undo."""

import itertools
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.bindings.routed import disabled
from tests.kernel.build import code_of, create, effect, envelope, memory_ledger, op_id, submit

BINDING_IDS = st.sampled_from(["b1", "b2"])
KERNEL = Kernel()


class BindingMachine(RuleBasedStateMachine):
    """Two bindings over one corpus; a subclass writes them and says what must hold."""

    def start(self):
        """Create the ledger and the corpus; an `initialize` of the subclass calls this."""
        self.names = itertools.count()
        self.ledger = memory_ledger()
        self.done = []
        assert self.accept(create("corpus", "Corpus"))

    def accept(self, *documents):
        """Submit in one transaction; return whether every document was accepted."""
        named = []
        for document in documents:
            name = f"operation-{next(self.names)}"
            named.append(document | {"operation_id": op_id(name), "idempotency_key": name})
        answer = submit(self.ledger, *named, submitter="orchestrator")
        results = answer if isinstance(answer, list) else [answer]
        accepted = [result.operation_id for result in results if code_of(result) is None]
        self.done += accepted
        return len(accepted) == len(results)

    @rule(binding_id=BINDING_IDS)
    def disable(self, binding_id):
        self.accept(disabled(binding_id))

    @rule(binding_id=BINDING_IDS)
    def revert(self, binding_id):
        reverted = [effect("binding_generation_revert", binding_id)]
        self.accept(envelope("binding_generation_revert", reverted))

    @rule(data=st.data())
    def undo(self, data):
        operation_id = data.draw(st.sampled_from(self.done))
        with suppress(RollbackRefused), self.ledger.transaction() as transaction:
            result = rollback_operation(KERNEL, transaction, operation_id).submission
            self.done.append(result.operation_id)
