// The ten main calls by the client that was generated for TypeScript: `calls.js URL NAME ENVELOPE`.

import createClient from "openapi-fetch";
import type { components, paths } from "./rotulus_api.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];

const [url, name, envelope] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: url });
const queue = "binding-evaluation";

/** The answer of a call; a refusal is thrown. */
function answered<Answer>(call: { data?: Answer; error?: unknown }): Answer {
  if (call.data === undefined) throw new Error(JSON.stringify(call.error));
  return call.data;
}

const ontology = {
  hypothesis_space_id: "space",
  hypothesis_version: "v1",
  causal_graph_ref: "none",
  causal_graph_version: "0",
};
const declared = answered(
  await client.POST("/v1/sessions", { body: { ontology, hypotheses: ["a", "b"] } }),
);
const path = { session_id: declared.session_id };
const eliminated = answered(
  await client.POST("/v1/sessions/{session_id}/eliminate", {
    params: { path },
    body: { source_id: "source-1", observation_id: "observation-1", eliminated: ["a"] },
  }),
);
const snapshot = answered(await client.GET("/v1/sessions/{session_id}", { params: { path } }));
const source: Schemas["CreateSource"] = {
  intent_kind: "create_source",
  intent_key: `${name}:source`,
  node_id: `s:${name}`,
  corpus_id: "corpus:test",
  content_kind: "order",
  text: "It is DENIED.",
};
const operated = answered(
  await client.POST("/v1/sessions/{session_id}/operations", {
    params: { path },
    body: { intents: [source] },
  }),
);
const submitted = answered(
  await client.POST("/v1/sessions/{session_id}/envelopes", {
    params: { path },
    body: JSON.parse(envelope),
  }),
);
const content = { binding_id: "binding-1", source_event_id: "event-1" };
const enqueued = answered(
  await client.POST("/v1/queues/{queue}/requests", {
    params: { path: { queue } },
    body: { requests: [{ request_key: `${name}:job`, content }] },
  }),
);
const request_id = enqueued.requests[0]!.request_id;
const request = answered(
  await client.GET("/v1/queues/{queue}/requests/{request_id}", {
    params: { path: { queue, request_id } },
  }),
);
const page = answered(
  await client.GET("/v1/queues/{queue}/requests", { params: { path: { queue } } }),
);
const proof = answered(
  await client.GET("/v1/tree/inclusion/{ec_sequence_number}", {
    params: { path: { ec_sequence_number: Number(submitted.ec_sequence_number) } },
  }),
);
const cases = [0, 1, 2].map(
  (n): Schemas["IntentLine"] => ({
    intent_kind: "create_case",
    intent_key: `${name}:case:${n}`,
    case_ref: `${name}:${n}`,
    corpus_id: "corpus:test",
  }),
);
const stream = answered(
  await client.POST("/v1/sessions/{session_id}/operations:bulk", {
    params: { path },
    body: cases.map((line) => `${JSON.stringify(line)}\n`).join(""),
    bodySerializer: (lines) => lines,
    headers: { "Content-Type": "application/x-ndjson" },
    parseAs: "text",
  }),
);
const lines = stream
  .trimEnd()
  .split("\n")
  .map((line): Schemas["AnswerLine"] => JSON.parse(line));

console.log(
  JSON.stringify({
    eliminated: eliminated.applied_eliminated,
    survivors: snapshot.survivors,
    operated: operated.results.map((result) => result.validation_result),
    submitted: submitted.operation_id,
    state: request.state,
    is_listed: page.requests.some((listed) => listed.request_id === request_id),
    proved: proof.ec_sequence_number === submitted.ec_sequence_number,
    lines: lines.map((line) => ("result" in line ? line.result.validation_result : line.error.code)),
  }),
);
