"""States what a queue takes by a JSON Schema, so that gateways need no module of its job."""

from kernel.values.canonical import canonicalize
from kernel.values.foreign_code import call_foreign, cause_of
from kernel.work.registrations import QueueRegistration, kind_of
from workers.plugins.queue_plugin import QueuePlugin


def registration_of(plugin: QueuePlugin) -> QueueRegistration:
    """Return what a worker registers of a queue.

    Raises:
        ValueError: no schema says what its content, its item or its priority is, as where its model
            computes one of them. Then every gateway needs the plug-in.
    """
    try:
        schema = call_foreign(plugin.content.model_json_schema)
    except Exception as error:
        raise ValueError(f"its content has no JSON Schema: {cause_of(error)}") from error
    registration = QueueRegistration(
        plugin.name,
        schema,
        _field_name(plugin, plugin.item_key),
        plugin.priorities,
        plugin.default_priority,
        None if plugin.priority_field is None else _field_name(plugin, plugin.priority_field),
    )
    kind_of(canonicalize(registration.document()))
    return registration


def _field_name(plugin: QueuePlugin, field: str) -> str:
    """Return what a field is called where a content is stated."""
    known = plugin.content.model_fields.get(field)
    alias = None if known is None else known.validation_alias
    return alias if isinstance(alias, str) else field
