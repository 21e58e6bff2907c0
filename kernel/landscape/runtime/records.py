"""Makes the records of a run of the runtime, from the ways of its stretch of the log.

Each operation and each request is a token. A record that comes from nothing in the run is a row;
one that comes from something is its child: of what several came from, a fork; of several, a join,
as a recompute is of all the requests that it answers. A reviewed batch is a batch, an answer of a
model a call.
"""

from collections import Counter
from functools import cache
from operator import itemgetter
from typing import Any

from kernel.algebra.verbs import BATCH_REVIEW
from kernel.landscape.canonical_types import TYPED_VERSION, typed_data
from kernel.landscape.digest import RunDigest, digest_of_records
from kernel.landscape.grades import REPLAY
from kernel.landscape.record_rules import KEYS, NAME_CHARS_MAX, TABLES, part_key
from kernel.landscape.runtime.stages import EDGES, NODES, REVIEW
from kernel.landscape.runtime.stretches import RuntimeRun
from kernel.landscape.runtime.ways import Way, ways_of
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row
from kernel.values.canonical import MAX_SAFE_INTEGER, canonicalize, sha256_hex
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import parse_time_us

RECORD, NOT_FIRED, CANCELLED = "record", "not_fired", "cancelled"
"""Where a way ends: on the record, with nothing fired, or taken back."""

VERSION = "1"
"""Of the way in which records follow from the log; a change of it changes the digests of runs."""


class RuntimeRecords:
    """The records of one run by their tables."""

    def __init__(self, view: LedgerView, stretch: RuntimeRun) -> None:
        """Read the stretch and make the records; linear in its rows."""
        self.run_id = stretch.run_id
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._ways = ways_of(view, stretch)
        self._keys = {way.name: _key(way.name) for way in self._ways}
        self._children = Counter(parent for way in self._ways for parent in way.parents)
        self._joined = {
            parent: self._keys[way.name]
            for way in self._ways
            if way.joins
            for parent in way.parents
        }
        self._row_of: dict[str, str] = {}
        self._ordinals: Counter[str] = Counter()
        run = run_record(view, stretch)
        self.rows["runs"].append(run)
        self._add_graph(run["started_at_us"])
        for way in self._ways:
            self._add_way(way)
        for name, rows in self.rows.items():
            rows.sort(key=itemgetter(KEYS[name]))

    def _add(self, table: str, key: str, **fields: Any) -> None:
        row = _empty(table) | fields
        row["run_id"], row[KEYS[table]] = self.run_id, key
        self.rows[table].append(row)

    def _add_graph(self, began_us: int) -> None:
        nodes: dict[str, str] = {str(stage): kind for stage, kind in NODES.items()}
        for way in self._ways:
            nodes.setdefault(way.node_id, "transform")
            if _operations_of_batch(way):
                nodes[REVIEW] = "aggregation"
        config = typed_data(None)
        for place, (node_id, node_type) in enumerate(nodes.items()):
            self._add(
                "nodes",
                node_id,
                plugin_name=node_id,
                plugin_version=VERSION,
                node_type=node_type,
                determinism="external_call" if node_id == "extraction" else "deterministic",
                config_hash=sha256_hex(config),
                config_json=config.decode(),
                sequence_in_pipeline=place,
                registered_at_us=began_us,
            )
        for origin, label, target in EDGES:
            self._add(
                "edges",
                f"{origin}:{label}:{target}",
                from_node_id=origin,
                to_node_id=target,
                label=label,
                default_mode="move",
                created_at_us=began_us,
            )

    def _add_way(self, way: Way) -> None:
        token_id = self._keys[way.name]
        parents = [parent for parent in way.parents if parent in self._row_of]
        row_id = self._row_of[parents[0]] if parents else token_id
        self._row_of[way.name] = row_id
        if not parents:
            self._add(
                "rows",
                row_id,
                source_node_id=way.node_id,
                row_index=len(self.rows["rows"]),
                source_data_hash=way.content_hash,
                created_at_us=way.began_us,
            )
        fork = None if way.joins or not parents else self._keys[parents[0]]
        self._add(
            "tokens",
            token_id,
            row_id=row_id,
            branch_name=way.node_id if parents else None,
            fork_group_id=fork,
            join_group_id=token_id if way.joins and parents else None,
            created_at_us=way.began_us,
        )
        self._add_parents(way, token_id, parents)
        self._add_states(way, token_id)
        self._add_outcome(way, token_id)
        if _operations_of_batch(way):
            self._add_batch(way, token_id)

    def _add_parents(self, way: Way, token_id: str, parents: list[str]) -> None:
        for place, parent in enumerate(parents):
            ordinal = place if way.joins else self._ordinals[parent]
            self._ordinals[parent] += 1
            self._add(
                "token_parents",
                part_key(token_id, ordinal),
                token_id=token_id,
                parent_token_id=self._keys[parent],
                ordinal=ordinal,
            )

    def _add_states(self, way: Way, token_id: str) -> None:
        if way.is_request:
            output = canonicalize([way.outcome, way.row["operation_id"]])
            failed = way.outcome != "completed"
            self._state(
                way,
                token_id,
                0,
                way.node_id,
                way.ended_us - way.began_us,
                input_hash=way.content_hash,
                output_hash=None if failed else sha256_hex(output),
                error_json=typed_data({"outcome": way.outcome}).decode() if failed else None,
                status="failed" if failed else "completed",
            )
            return
        # Earlier releases recorded any duration; no record of a run has a larger integer.
        made_us = round(min(way.envelope.get("duration_ms", 0) * 1000, MAX_SAFE_INTEGER))
        made, committed = way.content_hash, way.row["row_hash"]
        self._state(way, token_id, 0, way.node_id, made_us, input_hash=made, output_hash=made)
        took_us = way.ended_us - way.began_us
        self._state(way, token_id, 1, "commit", took_us, input_hash=made, output_hash=committed)
        for place, call in enumerate(way.envelope.get("recorded_model_outputs", ())):
            self._add(
                "calls",
                part_key(token_id, place),
                state_id=part_key(token_id, 0),
                call_index=place,
                call_type="llm",
                status="success",
                request_hash=call["prompt_hash"],
                response_hash=call["output_payload_blob_ref"],
                created_at_us=way.began_us,
            )

    def _state(
        self, way: Way, token_id: str, place: int, node_id: str, took_us: int, **fields: Any
    ) -> None:
        stated = {"status": "completed", **fields}
        self._add(
            "node_states",
            part_key(token_id, place),
            token_id=token_id,
            node_id=node_id,
            step_index=place,
            attempt=0,
            started_at_us=way.began_us,
            completed_at_us=way.ended_us,
            duration_us=took_us,
            **stated,
        )

    def _add_outcome(self, way: Way, token_id: str) -> None:
        children = self._children[way.name]
        fields: Row = {"outcome": "completed", "sink_name": RECORD}
        if way.outcome == "dead_letter":
            fields = {"outcome": "failed", "error_hash": sha256_hex(b"dead_letter")}
        elif way.outcome == "cancelled":
            fields = {"outcome": "routed", "sink_name": CANCELLED}
        elif way.name in self._joined:
            fields = {"outcome": "coalesced", "join_group_id": self._joined[way.name]}
        elif children:
            branches = typed_data({"count": children}).decode()
            fields = {"outcome": "forked", "fork_group_id": token_id}
            fields["expected_branches_json"] = branches
        elif way.is_request and way.node_id == "binding_evaluation":
            fields = {"outcome": "routed", "sink_name": NOT_FIRED}
        self._add(
            "token_outcomes",
            part_key(token_id, 0),
            token_id=token_id,
            is_terminal=1,
            recorded_at_us=way.ended_us,
            **fields,
        )

    def _add_batch(self, way: Way, token_id: str) -> None:
        members = [each for each in _operations_of_batch(way) if each in self._row_of]
        self._add(
            "batches",
            token_id,
            aggregation_node_id=REVIEW,
            trigger_type="manual",
            attempt=0,
            status="completed",
            created_at_us=way.began_us,
            completed_at_us=way.ended_us,
        )
        for ordinal, member in enumerate(members):
            self._add(
                "batch_members",
                part_key(token_id, ordinal),
                batch_id=token_id,
                token_id=self._keys[member],
                ordinal=ordinal,
            )


def _operations_of_batch(way: Way) -> list[str]:
    """Return the operations of a reviewed batch, if the way is that of its record."""
    if way.envelope.get("semantic_intent") != BATCH_REVIEW:
        return []
    items = (
        item
        for effect in way.envelope["primitive_effects"]
        for item in effect.get("payload", {}).get("item_operations", ())
    )
    return list(dict.fromkeys(item["operation_id"] for item in items))


def _key(name: str) -> str:
    """Return the id of a token: the name itself, the hash of one too long for a key."""
    too_long = len(name) > NAME_CHARS_MAX - 16
    return f"sha256:{sha256_hex(name.encode())}" if too_long else name


@cache
def _empty(table: str) -> Row:
    return dict.fromkeys(column_names(TABLES[table]))


def digest_of_stretch(view: LedgerView, stretch: RuntimeRun) -> RunDigest:
    """Return what the seal of a run states; linear in the rows of its stretch."""
    return digest_of_records(stretch.run_id, RuntimeRecords(view, stretch).rows.items())


def run_record(view: LedgerView, stretch: RuntimeRun) -> Row:
    """Return the record of a run itself: it lasts from its first row to its last.

    Raises:
        LedgerCorrupt: the log does not have one of them.
    """
    began_us, ended_us = (_commit_time_us(view, each) for each in (stretch.first, stretch.last))
    settings = typed_data({"derivation": VERSION, "first": stretch.first})
    ended = None if stretch.is_open else ended_us
    return _empty("runs") | {
        "run_id": stretch.run_id,
        "status": "running" if stretch.is_open else "completed",
        "config_hash": sha256_hex(settings),
        "settings_json": settings.decode(),
        "canonical_version": TYPED_VERSION,
        "started_at_us": began_us,
        "completed_at_us": ended,
        "reproducibility_grade": None if ended is None else REPLAY,
    }


def _commit_time_us(view: LedgerView, sequence: int) -> int:
    row = view.log_row_at(sequence)
    if row is None:
        raise LedgerCorrupt(f"row {sequence} of the log is missing")
    return parse_time_us(row["committed_at"])
