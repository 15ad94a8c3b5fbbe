"""The dashboard's HTTP: a static page, a stream of events, one way to ask for a change. No shell, no files but its own.

Every request passes the gate first; an answer says in JSON why it is none.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from testbed.live.web.mailboxes import Mailbox, TooManyPages
from testbed.live.web.safety import HEADERS, Gate, Refused
from testbed.live.web.sources import Source
from topologies.errors import InputError, RingroadError

STATIC = Path(__file__).with_name("static")
MAX_BODY_BYTES = 4096
"""No change that a page can ask for comes near."""


class Json(JSONResponse):
    """In ASCII: what people wrote may hold characters that UTF-8 has no bytes for. ValueError for NaN and its like."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class Gatekeeper:
    """Lets a request through to the app, or answers it itself; puts the headers of safety on every answer."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, by ASGI."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((k.lower().encode(), v.encode()) for k, v in HEADERS.items()),
                ]
            await send(message)

        request = Request(scope)
        answer: ASGIApp = self._app
        try:
            if len(request.headers.getlist("host")) != 1:
                raise Refused(400, "one Host header is needed")
            self._gate.check(request.method, dict(request.headers.items()), request.query_params.get("token"))
        except Refused as refused:
            answer = _refusal(refused.status, refused.reason, refused.remedy)
            answer.headers["Connection"] = "close"  # Strangers hold no place that a page could have.
        await answer(scope, receive, send_with_headers)


def make_app(source: Source, gate: Gate) -> ASGIApp:
    """What uvicorn serves."""

    async def page(request: Request) -> Response:
        """The page itself; who brings the token in the address gets it as a cookie, and needs it no more there."""
        answer = HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8"))
        if gate.token is not None and request.query_params.get("token") == gate.token:
            answer.set_cookie(gate.cookie, gate.token, httponly=True, samesite="strict", path="/")
        return answer

    async def scene(_: Request) -> Response:
        return Json(source.scene())

    async def recording(request: Request) -> Response:
        try:
            block = source.recording(int(request.query_params.get("block", "")))
        except (KeyError, ValueError):
            return _refusal(404, "no such block", "GET /scene lists the blocks")
        except RingroadError as error:
            return _refusal(409, error.message, error.remedy)
        try:
            return Json(block)
        except ValueError as error:  # A number that is none came from a damaged file.
            return _refusal(409, f"the run folder is damaged: {error}", "restore the folder, or run again")

    async def stream(_: Request) -> Response:
        try:
            mailbox = source.open_page()
        except KeyError:
            return _refusal(404, "a finished run has no events", "GET /recording?block=1")
        except TooManyPages:
            return _refusal(503, "too many pages are open", "close some")
        return _Stream(source, mailbox)

    async def change(request: Request) -> Response:
        return await _answered(request, source.change)

    routes = [
        Route("/", page),
        Route("/scene", scene),
        Route("/recording", recording),
        Route("/events", stream),
        Route("/change", change, methods=["POST"]),
        Mount("/", StaticFiles(directory=STATIC)),
    ]
    return Gatekeeper(Starlette(routes=routes), gate)


async def _answered(request: Request, change: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> Response:
    try:
        wanted = json.loads(await _body(request))
        if not isinstance(wanted, dict):
            raise InputError("a change is a JSON object", remedy='as in {"op": "fail", "link": "tokyo-oregon"}')
        return Json(await change(wanted))
    except Refused as refused:
        return _refusal(refused.status, refused.reason)
    except (ValueError, RecursionError):
        return _refusal(400, "not JSON", 'as in {"op": "fail", "link": "tokyo-oregon"}')
    except InputError as error:
        return _refusal(400, error.message, error.remedy)
    except RingroadError as error:
        return _refusal(409, error.message, error.remedy)


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise Refused(413, f"more than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect as error:
        raise Refused(400, "half a request") from error
    return bytes(body)


class _Stream(StreamingResponse):
    """Events for one page, whose mailbox is closed however it ends."""

    def __init__(self, source: Source, mailbox: Mailbox) -> None:
        self._source, self._mailbox = source, mailbox
        super().__init__(self._messages(), media_type="text/event-stream")

    async def _messages(self) -> AsyncIterator[bytes]:
        async for message in self._mailbox.messages():
            yield message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._source.close_page(self._mailbox)


def _refusal(status: int, reason: str, remedy: str = "") -> Json:
    return Json({"error": reason, "remedy": remedy}, status)
