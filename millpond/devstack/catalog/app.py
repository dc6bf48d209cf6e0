"""The ASGI application: the route table, and the mapping of refusals to answers."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from urllib.parse import unquote

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import millpond
from millpond.devstack.catalog.access import Access, EncodedPath, RequestLog
from millpond.devstack.catalog.call import Background, Call, Reply, Service
from millpond.devstack.catalog.control import ControlPanel, Injection, RuleBook
from millpond.devstack.catalog.errors import BadRequestError, CatalogError
from millpond.devstack.catalog.gate import Gate
from millpond.devstack.catalog.metrics import REFUSALS, REGISTRY
from millpond.devstack.catalog.routes import ROUTES, Endpoint
from millpond.devstack.catalog.settings import CatalogSettings
from millpond.devstack.catalog.storage import Storage

_log = logging.getLogger(__name__)

_MEDIA_TYPE: Final = "application/json"
_CONTROL_THREADS: Final = 2


def create_app(settings: CatalogSettings) -> Starlette:
    """The catalog over one database file, opened here and closed when the application shuts down.

    `app.state.storage` is the open database, for a server that wants to stop waiting commits.

    Raises:
        DatabaseUnusableError: the file cannot be opened, or belongs to another version.
    """
    storage = Storage(settings.database, wait_seconds=settings.wait_seconds)
    log = RequestLog(settings.request_log, kept=settings.control)
    background = _background(settings, storage)
    service = Service(storage, settings, _micros, background)
    gate = Gate(settings.handler_threads, settings.wait_seconds)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if background is not None:
            background.start()
        yield
        if background is not None:
            background.stop()
        storage.close()
        log.close()

    routes = [*_service_routes(service, gate), *(_route(row, service, gate) for row in ROUTES)]
    middleware = [Middleware(EncodedPath), Middleware(Access, log=log)]
    if settings.control:
        book = RuleBook()
        routes += _control_routes(ControlPanel(service, book, log), service)
        middleware.append(Middleware(Injection, book=book, service=service))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={404: _empty(404), 405: _empty(405)},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # an unrouted path is a 404, and clients follow no redirect
    app.state.storage = storage
    return app


def _background(settings: CatalogSettings, storage: Storage) -> Background | None:
    if settings.object_store is None:
        return None
    from millpond.devstack.catalog.background import ObjectWork  # noqa: PLC0415  # pyarrow, only where it is used

    return ObjectWork(settings.object_store, storage, _micros)


def _route(row: Endpoint, service: Service, gate: Gate) -> Route:
    return Route("/v1" + row.path, _endpoint(row.handler, service, gate), methods=[row.method])


def _control_routes(panel: ControlPanel, service: Service) -> list[Route]:
    # Threads of their own: a fault that fills the catalog's must still be taken back.
    gate = Gate(_CONTROL_THREADS, service.settings.wait_seconds)
    return [
        Route(row.path, _endpoint(row.handler, service, gate), methods=[row.method])
        for row in panel.endpoints()
    ]


def _endpoint(
    handler: Callable[[Call], Reply], service: Service, gate: Gate
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return _json(await gate.run(handler, await _call(request, service)))
        except CatalogError as error:
            REFUSALS.labels(error.code).inc()
            return Response(orjson.dumps(error.body()), error.status, error.headers(), _MEDIA_TYPE)
        except Exception:  # noqa: BLE001  # whatever goes wrong is an answer of the contract's form, and logged
            _log.exception("%s %s failed", request.method, request.url.path)
            REFUSALS.labels(CatalogError.code).inc()
            failure = CatalogError("unexpected failure; the log of the catalog has the reason")
            return Response(orjson.dumps(failure.body()), failure.status, media_type=_MEDIA_TYPE)

    return answer


async def _call(request: Request, service: Service) -> Call:
    try:
        segments = {name: unquote(text, errors="strict") for name, text in request.path_params.items()}
    except UnicodeDecodeError as error:
        raise BadRequestError(f"path: not UTF-8: {error}") from error
    return Call(service, segments, request.query_params, request.headers, await request.body())


def _json(reply: Reply) -> Response:
    return Response(orjson.dumps(reply.payload), reply.status, media_type=_MEDIA_TYPE)


def _empty(status: int) -> Callable[[Request, Exception], Response]:
    def answer(_: Request, __: Exception) -> Response:
        return Response(status_code=status)

    return answer


def _service_routes(service: Service, gate: Gate) -> list[Route]:
    async def metrics(_: Request) -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    async def livez(_: Request) -> Response:
        return Response("alive\n", media_type="text/plain")

    def health(call: Call) -> Reply:
        with call.service.storage.read() as db:
            db.execute("SELECT count(*) FROM catalog").fetchone()
        return Reply({"status": "ok"})

    async def healthz(request: Request) -> Response:
        answer = await _endpoint(health, service, gate)(request)
        return answer if answer.status_code == 200 else Response(status_code=503)  # noqa: PLR2004  # HTTP

    def info(_: Call) -> Reply:
        store = service.settings.object_store
        return Reply(
            {
                "version": millpond.__version__,
                "name": "millpond development catalog, not hoglake",
                # Honest about what a real server does in the background and this one does not.
                "background": {
                    "object_store": service.background is not None,
                    "hydrator": bool(store and store.hydrator_interval_ms),
                    "compaction": "on request" if store else False,
                },
                "control": service.settings.control,
            }
        )

    return [
        Route("/livez", livez),
        Route("/healthz", healthz),
        Route("/metrics", metrics),
        Route("/v1/info", _endpoint(info, service, gate)),
    ]


def _micros() -> int:
    return time.time_ns() // 1000
