import datetime

from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_TYPE_UNSPECIFIED: _ClassVar[NodeType]
    NODE_TYPE_SERVICE: _ClassVar[NodeType]
    NODE_TYPE_DEPENDENCY: _ClassVar[NodeType]
    NODE_TYPE_INFRASTRUCTURE: _ClassVar[NodeType]
    NODE_TYPE_MECHANISM: _ClassVar[NodeType]

class EdgeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_TYPE_UNSPECIFIED: _ClassVar[EdgeType]
    EDGE_TYPE_DEPENDS_ON: _ClassVar[EdgeType]
    EDGE_TYPE_PROPAGATES_TO: _ClassVar[EdgeType]
    EDGE_TYPE_MANIFESTS_AS: _ClassVar[EdgeType]
NODE_TYPE_UNSPECIFIED: NodeType
NODE_TYPE_SERVICE: NodeType
NODE_TYPE_DEPENDENCY: NodeType
NODE_TYPE_INFRASTRUCTURE: NodeType
NODE_TYPE_MECHANISM: NodeType
EDGE_TYPE_UNSPECIFIED: EdgeType
EDGE_TYPE_DEPENDS_ON: EdgeType
EDGE_TYPE_PROPAGATES_TO: EdgeType
EDGE_TYPE_MANIFESTS_AS: EdgeType

class Provenance(_message.Message):
    __slots__ = ("source", "timestamp", "trigger")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    source: str
    timestamp: _timestamp_pb2.Timestamp
    trigger: str
    def __init__(self, source: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trigger: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "type", "label", "hypothetical", "provenance")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    HYPOTHETICAL_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: NodeType
    label: str
    hypothetical: bool
    provenance: _containers.RepeatedCompositeFieldContainer[Provenance]
    def __init__(self, id: _Optional[str] = ..., type: _Optional[_Union[NodeType, str]] = ..., label: _Optional[str] = ..., hypothetical: _Optional[bool] = ..., provenance: _Optional[_Iterable[_Union[Provenance, _Mapping]]] = ...) -> None: ...

class Edge(_message.Message):
    __slots__ = ("source", "target", "type", "provenance")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    type: EdgeType
    provenance: _containers.RepeatedCompositeFieldContainer[Provenance]
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., type: _Optional[_Union[EdgeType, str]] = ..., provenance: _Optional[_Iterable[_Union[Provenance, _Mapping]]] = ...) -> None: ...

class CausalGraph(_message.Message):
    __slots__ = ("nodes", "edges")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    edges: _containers.RepeatedCompositeFieldContainer[Edge]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ...) -> None: ...

class HypothesisDelta(_message.Message):
    __slots__ = ("nodes", "edges")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    edges: _containers.RepeatedCompositeFieldContainer[Edge]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ...) -> None: ...

class HypothesisMergeResult(_message.Message):
    __slots__ = ("created_ids", "merged_ids", "conflicts")
    CREATED_IDS_FIELD_NUMBER: _ClassVar[int]
    MERGED_IDS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    created_ids: _containers.RepeatedScalarFieldContainer[str]
    merged_ids: _containers.RepeatedScalarFieldContainer[str]
    conflicts: _containers.RepeatedCompositeFieldContainer[MergeConflict]
    def __init__(self, created_ids: _Optional[_Iterable[str]] = ..., merged_ids: _Optional[_Iterable[str]] = ..., conflicts: _Optional[_Iterable[_Union[MergeConflict, _Mapping]]] = ...) -> None: ...

class MergeConflict(_message.Message):
    __slots__ = ("id", "field", "existing_value", "proposed_value")
    ID_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    EXISTING_VALUE_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_VALUE_FIELD_NUMBER: _ClassVar[int]
    id: str
    field: str
    existing_value: str
    proposed_value: str
    def __init__(self, id: _Optional[str] = ..., field: _Optional[str] = ..., existing_value: _Optional[str] = ..., proposed_value: _Optional[str] = ...) -> None: ...

class CreateIncidentRequest(_message.Message):
    __slots__ = ("incident_id",)
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    def __init__(self, incident_id: _Optional[str] = ...) -> None: ...

class CreateIncidentResult(_message.Message):
    __slots__ = ("incident_id", "created")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    created: bool
    def __init__(self, incident_id: _Optional[str] = ..., created: _Optional[bool] = ...) -> None: ...

class IncidentContextRequest(_message.Message):
    __slots__ = ("incident_id",)
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    def __init__(self, incident_id: _Optional[str] = ...) -> None: ...

class IncidentContext(_message.Message):
    __slots__ = ("incident_id", "created_at", "tombstones")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    created_at: _timestamp_pb2.Timestamp
    tombstones: TombstoneSet
    def __init__(self, incident_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tombstones: _Optional[_Union[TombstoneSet, _Mapping]] = ...) -> None: ...

class NodeTombstoneRequest(_message.Message):
    __slots__ = ("incident_id", "node_ids", "provenance")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    provenance: Provenance
    def __init__(self, incident_id: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ...) -> None: ...

class EdgeTombstoneEntry(_message.Message):
    __slots__ = ("source", "target", "type")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    type: EdgeType
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., type: _Optional[_Union[EdgeType, str]] = ...) -> None: ...

class EdgeTombstoneRequest(_message.Message):
    __slots__ = ("incident_id", "entries", "provenance")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    entries: _containers.RepeatedCompositeFieldContainer[EdgeTombstoneEntry]
    provenance: Provenance
    def __init__(self, incident_id: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[EdgeTombstoneEntry, _Mapping]]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ...) -> None: ...

class TombstoneMergeResult(_message.Message):
    __slots__ = ("applied_ids", "already_tombstoned_ids", "unmatched_ids")
    APPLIED_IDS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_TOMBSTONED_IDS_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_IDS_FIELD_NUMBER: _ClassVar[int]
    applied_ids: _containers.RepeatedScalarFieldContainer[str]
    already_tombstoned_ids: _containers.RepeatedScalarFieldContainer[str]
    unmatched_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, applied_ids: _Optional[_Iterable[str]] = ..., already_tombstoned_ids: _Optional[_Iterable[str]] = ..., unmatched_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class LiveViewRequest(_message.Message):
    __slots__ = ("incident_id",)
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    def __init__(self, incident_id: _Optional[str] = ...) -> None: ...

class TombstoneRequest(_message.Message):
    __slots__ = ("incident_id",)
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    def __init__(self, incident_id: _Optional[str] = ...) -> None: ...

class TombstoneSet(_message.Message):
    __slots__ = ("node_ids", "edge_entries")
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    EDGE_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    edge_entries: _containers.RepeatedCompositeFieldContainer[EdgeTombstoneEntry]
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ..., edge_entries: _Optional[_Iterable[_Union[EdgeTombstoneEntry, _Mapping]]] = ...) -> None: ...
