"""The ten main calls by the client that was generated for Python: `calls.py URL NAME ENVELOPE`."""

import io
import json
import sys
from typing import Any

from rotulus_api import Client
from rotulus_api.api.operators import (
    list_requests_v1_queues_queue_requests_get as requests_of_queue,
)
from rotulus_api.api.producers import enqueue_v1_queues_queue_requests_post as enqueue
from rotulus_api.api.producers import get_request_v1_queues_queue_requests_request_id_get as status
from rotulus_api.api.proofs import inclusion_v1_tree_inclusion_ec_sequence_number_get as inclusion
from rotulus_api.api.sessions import declare_v1_sessions_post as declare
from rotulus_api.api.sessions import eliminate_v1_sessions_session_id_eliminate_post as eliminate
from rotulus_api.api.sessions import (
    operate_in_bulk_v1_sessions_session_id_operations_bulk_post as operate_in_bulk,
)
from rotulus_api.api.sessions import operate_v1_sessions_session_id_operations_post as operate
from rotulus_api.api.sessions import query_v1_sessions_session_id_get as query
from rotulus_api.api.sessions import submit_v1_sessions_session_id_envelopes_post as submit
from rotulus_api.models import (
    BindingEvaluation,
    CreateCase,
    CreateSource,
    DeclareBody,
    EliminateBody,
    EnqueueBody,
    Ontology,
    OperationsBody,
    RequestBody,
    SubmitV1SessionsSessionIdEnvelopesPostBody,
)
from rotulus_api.types import File

QUEUE = "binding-evaluation"


def main(url: str, name: str, envelope: dict[str, Any]) -> dict[str, Any]:
    client = Client(base_url=url, raise_on_unexpected_status=True)
    universe = DeclareBody(["a", "b"], Ontology("none", "0", "space", "v1"))
    session_id = declare.sync(client=client, body=universe).session_id
    elimination = EliminateBody(["a"], "observation-1", "source-1")
    eliminated = eliminate.sync(session_id, client=client, body=elimination)
    snapshot = query.sync(session_id, client=client)
    source = CreateSource("order", "corpus:test", f"{name}:source", f"s:{name}", "It is DENIED.")
    operated = operate.sync(session_id, client=client, body=OperationsBody([source]))
    body = SubmitV1SessionsSessionIdEnvelopesPostBody.from_dict(envelope)
    submitted = submit.sync(session_id, client=client, body=body)
    content = BindingEvaluation(binding_id="binding-1", source_event_id="event-1")
    job = EnqueueBody([RequestBody(content, f"{name}:job")])
    [receipt] = enqueue.sync(QUEUE, client=client, body=job).requests
    request = status.sync(QUEUE, receipt.request_id, client=client)
    page = requests_of_queue.sync(QUEUE, client=client)
    proof = inclusion.sync(int(submitted.ec_sequence_number), client=client)
    cases = [CreateCase(f"{name}:{n}", "corpus:test", f"{name}:case:{n}") for n in range(3)]
    lines = "".join(json.dumps(case.to_dict()) + "\n" for case in cases)
    stream = File(io.BytesIO(lines.encode()))
    answered = operate_in_bulk.sync(session_id, client=client, body=stream).payload
    return {
        "eliminated": eliminated.applied_eliminated,
        "survivors": snapshot.survivors,
        "operated": [result.validation_result for result in operated.results],
        "submitted": submitted.operation_id,
        "state": request.state,
        "is_listed": receipt.request_id in [listed.request_id for listed in page.requests],
        "proved": proof.ec_sequence_number == submitted.ec_sequence_number,
        "lines": [json.loads(line)["result"]["validation_result"] for line in answered],
    }


if __name__ == "__main__":
    url, name, envelope = sys.argv[1:]
    sys.stdout.write(json.dumps(main(url, name, json.loads(envelope))))
