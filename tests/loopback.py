"""Requests of a test to a process on this machine.

A client of httpx makes a TLS context for itself, which costs 40 ms of CPU and is never used here; a
test that asks every ten milliseconds would take a core from the processes that it waits for.
"""

import ssl
from functools import partial

import httpx

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody; a client that is given it makes no context of its own."""

get = partial(httpx.get, verify=NO_TLS, trust_env=False)
post = partial(httpx.post, verify=NO_TLS, trust_env=False)
client = partial(httpx.AsyncClient, verify=NO_TLS, trust_env=False, timeout=30.0)
