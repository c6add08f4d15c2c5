"""A local web server that behaves as told: the right file, a wrong one, a page, a connection that is cut."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Request(BaseHTTPRequestHandler):
    """One request; `wanted` is where the client asks to begin."""

    def log_message(self, *ignored: object) -> None:
        pass

    @property
    def wanted(self) -> int:
        return int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))

    def send(self, content: bytes, *, status: int = 200, declared: int | None = None, kind: str = "app/x") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if declared is None else declared))
        self.end_headers()
        self.wfile.write(content)

    def send_from(self, content: bytes, first: int, last: int | None = None) -> None:
        """A part, as servers that can resume send it; ended at `last`, without having said so."""
        rest = content[first:]
        self.send(rest[: None if last is None else last - first], status=206 if first else 200, declared=len(rest))


@contextmanager
def serving(behave: Callable[[Request], None]) -> Iterator[tuple[str, list[int]]]:
    """The server's address, and a list that gets the first byte asked for by each request."""
    asked: list[int] = []

    class Handler(Request):
        def do_GET(self) -> None:
            asked.append(self.wanted)
            behave(self)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/set.tar.gz", asked
    finally:
        server.shutdown()
        server.server_close()
