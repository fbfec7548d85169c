"""The web server of the explorer: on 127.0.0.1 only, behind a random token, without any other host.

Every request needs the token in its path and a Host header of this server, so that pages of other sites, also those whose
name was rebound to 127.0.0.1, get nothing. A websocket needs an Origin of this server too. The content security policy
forbids the page to load anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .desk import Desk, Workers
from .model import Setting
from .session import Session

HERE = Path(__file__).parent
HOST = "127.0.0.1"
LONGEST = 1 << 16  # bytes of a message from the page
NEEDED = 'the explorer needs starlette, uvicorn, websockets and plotly: pip install "gpclass[explore]"'
FILES = {
    "": (HERE / "page.html", "text/html"),
    "style.css": (HERE.parent / "assess" / "report" / "style.css", "text/css"),  # colours and type are those of reports
    "page.css": (HERE / "page.css", "text/css"),
    "page.js": (HERE / "page.js", "text/javascript"),
    "draw.js": (HERE / "draw.js", "text/javascript"),
}


def check_installed() -> None:
    """Raise an ImportError that says how to install what the explorer needs, if something is missing."""
    try:
        import plotly  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{NEEDED} ({error})") from error


class Guard:
    """ASGI middleware that refuses requests without the token, to other hosts, and websockets from other origins.

    Parameters
    ----------
    app : ASGI application
        The application; it sees paths without the token.
    token : str
        The token.
    port : int
        The port of the server.
    """

    def __init__(self, app: Any, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
        sources = " ".join(f"ws://{host}" for host in self.hosts)
        self.policy = (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
            f"connect-src 'self' {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif not self._may_enter(scope):
            await _refuse(scope, receive, send)
        else:
            inside = scope["path"].removeprefix(f"/{self.token}")
            await self.app({**scope, "path": inside, "raw_path": inside.encode()}, receive, self._adding_headers(send))

    def _may_enter(self, scope: Any) -> bool:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts, origins = ([value for name, value in headers if name == wanted] for wanted in (b"host", b"origin"))
        own = [f"http://{host}" for host in self.hosts]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return False
        if (origins or scope["type"] == "websocket") and (len(origins) != 1 or origins[0].lower() not in own):
            return False
        given = scope["path"].split("/")[1]
        return secrets.compare_digest(given.encode(), self.token.encode())

    def _adding_headers(self, send: Any) -> Any:
        added = {
            "content-security-policy": self.policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",  # the address has the token
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-store",
        }

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in added.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        return sending


async def _refuse(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the answer is 403
        return
    text = b"Forbidden: open the address that gpclass explore has printed, with its token.\n"
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": head})
    await send({"type": "http.response.body", "body": text})


def make_app(session: Session, first: Setting, token: str, port: int) -> Guard:
    """Return the ASGI application of the explorer."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    workers = Workers()

    def page(name: str) -> Callable[..., Any]:
        file, kind = FILES[name]

        async def answer(request: Any) -> Response:
            return Response(file.read_text(encoding="utf-8"), media_type=kind)

        return answer

    async def plotly(request: Any) -> Response:
        from plotly.offline import get_plotlyjs

        return Response(get_plotlyjs(), media_type="text/javascript")

    async def socket_(websocket: Any) -> None:
        await _converse(websocket, session, first, workers)

    routes: list[Any] = [Route(f"/{name}", page(name)) for name in FILES]
    routes += [Route("/plotly.min.js", plotly), WebSocketRoute("/socket", socket_)]
    return Guard(Starlette(routes=routes), token, port)


async def _converse(websocket: Any, session: Session, first: Setting, workers: Workers) -> None:
    """Serve one page until it is closed."""
    from starlette.websockets import WebSocketDisconnect

    await websocket.accept()
    turn = asyncio.Lock()

    async def send(message: dict[str, Any]) -> None:
        async with turn:
            await websocket.send_text(json.dumps(message, allow_nan=False, separators=(",", ":")))

    desk = Desk(session, first, workers, send)
    serving = asyncio.get_running_loop().create_task(desk.run())
    try:
        while True:
            try:
                message = json.loads(await websocket.receive_text())
            except ValueError:
                message = None
            await desk.receive(message)
    except (WebSocketDisconnect, RuntimeError, KeyError):  # closed, also while something was sent; or bytes were sent
        pass
    finally:
        desk.shape = -1
        serving.cancel()
        with suppress(BaseException):
            await serving


def listening(port: int = 0) -> socket.socket:
    """Return a socket that is bound to a port of 127.0.0.1; 0 takes any free one.

    Raises
    ------
    OSError
        If the port is taken, or may not be used.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise OSError(f"port {port} of {HOST} cannot be used ({error.strerror}); leave --port out for a free one") from error
    return bound


def serve(session: Session, first: Setting, bound: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve the explorer until Ctrl-C.

    Parameters
    ----------
    session : Session
        The session.
    first : Setting
        The setting that a page begins with.
    bound : socket
        Where to listen, from `listening`.
    ready : callable
        Called with the address, which has a new token, as soon as the server listens.
    """
    import uvicorn

    port, token = bound.getsockname()[1], secrets.token_urlsafe(24)
    app = make_app(session, first, token, port)
    settings: dict[str, Any] = {"log_level": "error", "access_log": False, "ws_max_size": LONGEST, "lifespan": "off"}
    config = uvicorn.Config(app, timeout_graceful_shutdown=1, ws_per_message_deflate=False, **settings)
    server = _Announcing(uvicorn.Server(config), lambda: ready(f"http://{HOST}:{port}/{token}/"))
    server.run(bound)


class _Announcing:
    """A server that says when it listens, and that takes Ctrl-C as its end."""

    def __init__(self, server: Any, ready: Callable[[], None]) -> None:
        self.server, self.ready = server, ready

    def run(self, bound: socket.socket) -> None:
        with suppress(KeyboardInterrupt):  # uvicorn ends all connections, and then raises it again
            asyncio.run(self._run(bound))

    async def _run(self, bound: socket.socket) -> None:
        serving = asyncio.get_running_loop().create_task(self.server.serve(sockets=[bound]))
        while not (self.server.started or serving.done()):
            await asyncio.sleep(0.01)
        if self.server.started:
            self.ready()
        await serving
