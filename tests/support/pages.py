"""Starts a dashboard as a person does and asks it over HTTP."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit


class Dashboard:
    """One that is running: its address in parts, and requests to it."""

    def __init__(self, process: subprocess.Popen, address: str) -> None:
        self.process, self.address = process, address
        parts = urlsplit(address)
        self.host, self.port = parts.hostname, parts.port
        self.token = parse_qs(parts.query).get("token", [None])[0]

    def ask(self, path, method="GET", body=None, token=True, **headers):
        """Status, headers and body; with the token unless told otherwise. `headers` by name, _ for -."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token and self.token:
            named.setdefault("Authorization", f"Bearer {self.token}")
        try:
            connection.request(method, path, body=body, headers=named)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def change(self, **request):
        """Ask for a change as its page does."""
        own = {"Origin": f"http://{self.host}:{self.port}", "Content_Type": "application/json"}
        status, _, body = self.ask("/change", "POST", json.dumps(request).encode(), **own)
        return status, json.loads(body)


@contextmanager
def dashboard(*command):
    """`python -m` and these arguments, once it has told its address; ended by Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Dashboard(process, json.loads(line)["address"])
    finally:
        process.send_signal(2)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
