"""A collector of traces on loopback: takes OTLP over HTTP, or takes nothing."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Attribute = str | int | bool


@dataclass
class Collector:
    url: str = ""
    spans: list[Span] = field(default_factory=list)

    def trace(self, trace_id: int) -> list[Span]:
        id_bytes = trace_id.to_bytes(16)
        return [span for span in self.spans if span.trace_id == id_bytes]


def attributes(span: Span) -> dict[str, Attribute]:
    values = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        assert kind in ("string_value", "int_value", "bool_value")
        values[attribute.key] = getattr(attribute.value, kind)
    return values


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()

    class CollectorHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    collector.spans += scope.spans
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), CollectorHandler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
