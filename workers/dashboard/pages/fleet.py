"""Shows the fleet: gateways and shards, principals, versions, settings, what operators decided."""

from collections import defaultdict
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from kernel.algebra.verbs import OPERATOR_VERBS
from kernel.ledger.shards import Shard
from kernel.values.host import iso_time
from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.page import Pages


async def show(pages: Pages, request: Request) -> Response:
    """Answer with gateways and shards, principals, versions, and the settings of this gateway."""
    shards = await pages.source.shards()
    urls = {each["gateway"]: each["url"] for each in (await pages.source.gateways())["gateways"]}
    owned: dict[str, list[Shard]] = defaultdict(list)
    for shard in shards:
        owned[shard.owner].append(shard)
    settings = pages.source.settings()
    context = {
        "gateways": [
            (
                name,
                len(owned[name]),
                ranges_of(each.shard for each in owned[name]),
                _since(owned[name]),
                urls.get(name),
            )
            for name in sorted({*owned, *urls} - {""})
        ],
        "unowned": len(owned[""]),
        "unowned_ranges": ranges_of(each.shard for each in owned[""]),
        "shards": len(shards),
        "principals": pages.source.principals(),
        "versions": await pages.source.versions(),
        "stated": [each for each in settings if not each.is_default],
        "defaults": [each for each in settings if each.is_default],
    }
    return await pages.answer(request, "fleet", context)


def ranges_of(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, such as `0-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _since(shards: Iterable[Shard]) -> str:
    """Return when a gateway got its newest shard; nothing where it has none."""
    newest_us = max((shard.acquired_at_us for shard in shards), default=0)
    return iso_time(newest_us) if newest_us else ""


async def show_operator_log(pages: Pages, request: Request) -> Response:
    """Answer with what people decided about queues, requests and the record, newest first."""
    query = request.query_params
    verb = next((each for each in OPERATOR_VERBS if each == query.get("verb")), None)
    who, after = text_of(query, "who"), place_of(query, "after")
    log = await pages.source.operator_log(verb, who, after)
    context = {
        "log": log,
        "verbs": OPERATOR_VERBS,
        "verb": verb,
        "filters": {"who": who},
        "is_first_page": after is None,
        "next_query": query_of({"verb": verb, "who": who, "after": log.next_after}),
    }
    return await pages.answer(request, "operator_log", context)
