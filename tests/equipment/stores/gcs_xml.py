"""Adds the part of Google's XML API that fake-gcs-server lacks: ``gcs_xml.py <port> <URL of the server>``."""

from __future__ import annotations

import html
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def _listed_after(body: bytes, start: str) -> bytes:
    """Drop entries of a listing before its start, which fake-gcs-server does not do."""
    first, *entries = re.split(r"(?=<Contents>)", body.decode())
    end = "</ListBucketResult>"
    kept = [e.removesuffix(end) for e in entries if html.unescape(e.split("<Key>")[1].split("</Key>")[0]) > start]
    return f"{first.removesuffix(end)}{''.join(kept)}{end}".encode()


class XmlUploads(BaseHTTPRequestHandler):
    """Forwards XML API requests to fake-gcs-server; uploads, which it lacks, through the JSON API."""

    target = ""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _pass_on(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else None
        path, method = self.path, self.command
        if method == "PUT":
            bucket, _, name = urllib.parse.urlsplit(path).path.lstrip("/").partition("/")
            query = {"uploadType": "media", "name": urllib.parse.unquote(name)}
            if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
                query["ifGenerationMatch"] = generation
            method, path = "POST", f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
            body = body or b""
        request = urllib.request.Request(f"{self.target}{path}", body, method=method)
        for name in ("Range", "Content-Type"):
            if name in self.headers:
                request.add_header(name, self.headers[name])
        try:
            with urllib.request.urlopen(request) as answer:
                self._answer(answer.status, dict(answer.headers), answer.read(), uploaded=method == "POST")
        except urllib.error.HTTPError as error:
            self._answer(error.code, dict(error.headers), error.read(), uploaded=False)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = _pass_on  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, uploaded: bool) -> None:
        self.send_response(status)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if status == 200 and "start-after" in query:
            body = _listed_after(body, query["start-after"][0])
        if uploaded:
            made = json.loads(body)
            headers = {"ETag": made["etag"], "x-goog-generation": made["generation"]}
            body = b""
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    XmlUploads.target = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), XmlUploads).serve_forever()
