"""Names the modules of `workers/client` as their wheel does, so that a checkout has one of each."""

import sys

import workers.client
from workers.client import *  # noqa: F403 - for type checkers; a program gets the module itself

sys.modules |= {
    name.replace(workers.client.__name__, __name__, 1): module
    for name, module in sys.modules.items()
    if name == workers.client.__name__ or name.startswith(f"{workers.client.__name__}.")
}
