"""Makes what a gateway makes once a process, in the process that those of tests are forked from.

Templates, routes and the backend of the event loop took a fifth of the CPU time of its start.
"""

from typing import Any

import anyio._backends._asyncio  # noqa: F401 - for its processes

from workers.api.app import MODULES
from workers.api.application import Application
from workers.dashboard.routes import build_router

_NOBODY: Any = object()
_ROUTERS = (*(module.router for module in MODULES), build_router(_NOBODY, _NOBODY))
Application((route for router in _ROUTERS for route in router.routes), _NOBODY)
