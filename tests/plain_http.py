"""What a client of the tests is made with: it neither reads certificates nor asks for proxies.

Reading them takes 40 ms of a processor for each client, and the tests ask again and again.
"""

import ssl
from typing import Any, Final

PLAIN: Final[dict[str, Any]] = {
    "trust_env": False,
    "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
}
