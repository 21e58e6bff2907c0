"""Computes an understanding's authority from the authorities of its inputs."""

from collections import deque

from kernel.authority.graph import InputGraph, input_edges_of
from kernel.authority.inputs import StatedInputs, inputs_along
from kernel.authority.strategy import compute_authority
from kernel.ledger.ledger import Document
from kernel.model.authority_strategy import AuthorityStrategy


def authority_of(
    view: InputGraph, strategy: AuthorityStrategy, node: Document
) -> tuple[float, StatedInputs]:
    """Return an understanding's authority by its inputs' authorities then, and those inputs.

    Raises:
        AuthorityInvalid: when an input or the result is not an authority.
    """
    stated = StatedInputs()
    inputs = inputs_along(input_edges_of(view, node["node_id"]), stated)
    value = compute_authority(strategy, inputs, node["payload"].get("override_authority"))
    deque(inputs, maxlen=0)  # an override reads none of them
    return value, stated
