"""The paths that a server answers to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from ..adaptation.validate import AdapterError
from ..meaning.dictionary import MeaningError
from ..media import MediaError
from ..models import EncoderError
from ..options import OptionError
from ..report.page.live import start_page
from ..writing import LinkError
from . import sounds as of_sounds
from .asking import asked
from .bodies import ExplainBody, JobBody, LabelBody, SaveBody, ScoresBody, SettingBody, SteerBody, TextBody, TowardsBody
from .decoding import Decoder
from .entry import Entry
from .folder import Folder
from .gate import Gate, Turn
from .jobs import Jobs
from .labels import Labels
from .limits import Limits
from .problems import Problem
from .shelf import Shelf
from .sounds import Sounds
from .tasks import equalised, queued
from .words import explained, steered

UPLOADS = 4  # read and decoded at a time
UPLOAD_SECONDS = 60  # to send one in
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')


def application(entries: dict[str, Entry], folder: Folder, limits: Limits, title: str, order: Callable[[Entry], dict[str, Any]]) -> FastAPI:
    """All of it; ``order(entry)``: how a training opens the entry's model."""
    gate, heard, jobs = Gate(limits.waiting), Sounds(), Jobs(folder, limits.jobs)
    shelves = {id: Shelf(folder, entry) for id, entry in entries.items()}
    labels = {id: Labels(folder, entry) for id, entry in entries.items()}
    decoder, uploads = Decoder(), asyncio.Semaphore(UPLOADS)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.end()
        gate.pool.shutdown(wait=True, cancel_futures=True)
        decoder.end()

    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None, lifespan=life, redirect_slashes=False)
    app.state.gate = gate

    def entry(id: str) -> Entry:
        if id not in entries:
            raise Problem(404, "no such run or model here")
        return entries[id]

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")[:80]
        return JSONResponse({"error": f"{where or 'the body'}: {first['msg']}"[:300]}, 422)

    @app.exception_handler(LinkError)
    async def linked(request: Request, error: LinkError) -> JSONResponse:
        return JSONResponse({"error": "there is a link where a folder of the server's own should be; nothing was read or written"}, 409)

    for kind in (MediaError, OptionError, AdapterError, MeaningError, EncoderError):
        app.add_exception_handler(kind, lambda request, error: JSONResponse({"error": str(error).splitlines()[0][:400]}, 422))

    @app.get("/")
    async def start() -> Response:
        if len(entries) == 1:
            return RedirectResponse(f"/r/{next(iter(entries))}/", 303)
        html = start_page(title, [one.summary for one in entries.values()])
        return page(html.encode())

    @app.get("/r/{id}/")
    async def shown(id: str) -> Response:
        return page(entry(id).html)

    @app.get("/r/{id}")
    async def slash(id: str) -> Response:
        return RedirectResponse(f"/r/{entry(id).id}/", 303)

    @app.get("/api")
    async def listed() -> dict[str, Any]:
        from importlib.metadata import version

        return {"entries": [one.summary for one in entries.values()], "version": version("residual-audio")}

    @app.get("/api/jobs")
    async def queue() -> dict[str, Any]:
        return {"jobs": jobs.listed()}

    @app.get("/api/jobs/{jid}")
    async def job(jid: str) -> dict[str, Any]:
        return jobs.get(jid)

    @app.delete("/api/jobs/{jid}")
    async def cancel(jid: str) -> dict[str, Any]:
        return await asyncio.to_thread(jobs.cancel, jid)

    @app.get("/api/{id}")
    async def about(id: str) -> dict[str, Any]:
        one = entry(id)
        return {**one.summary, "classes": one.titles, "units": [u.label for u in one.encoder.units]}

    @app.get("/api/{id}/clips")
    async def clips(id: str, start: Annotated[int, Query(ge=0)] = 0, count: Annotated[int, Query(ge=1, le=500)] = 50) -> dict[str, Any]:
        one = entry(id)
        rows = range(start, min(start + count, len(one.labels)))
        return {"total": len(one.labels), "clips": [{"row": r, "id": one.ids[r], "class": int(one.targets[r])} for r in rows]}

    @app.get("/api/{id}/clips/{row}")
    async def clip(id: str, row: Annotated[int, Path(ge=0)]) -> dict[str, Any]:
        return await asyncio.to_thread(entry(id).record, row)

    @app.post("/api/{id}/equalise")
    async def equalise(id: str, body: SettingBody, turn: Turn) -> dict[str, Any]:
        return await turn(equalised, entry(id), body.read())

    @app.get("/api/{id}/equaliser")
    async def sliders(id: str, turn: Turn, adapter: Annotated[str | None, Query(max_length=48)] = None) -> dict[str, Any]:
        board = await turn(entry(id).board, adapter)
        return {"equaliser": board.packed, "notes": list(board.part.notes), "adapter": adapter}

    @app.get("/api/{id}/adapters")
    async def adapters(id: str) -> dict[str, Any]:
        return {"adapters": await asyncio.to_thread(shelves[entry(id).id].listed)}

    @app.post("/api/{id}/adapters", status_code=201)
    async def save(id: str, body: SaveBody) -> dict[str, Any]:
        one, shelf = entry(id), shelves[entry(id).id]
        return await gate(lambda: shelf.save(body.name, one.changed(body.setting.read()), body.replace))

    @app.delete("/api/{id}/adapters/{name}", status_code=204)
    async def delete(id: str, name: str) -> Response:
        await gate(shelves[entry(id).id].delete, name)
        return Response(status_code=204)

    def download(id: str, name: str, kind: str, make: Callable[..., Any]) -> FileResponse:
        """A file in a draft, which is gone when it has been sent."""
        stack = ExitStack()
        try:
            path = make(stack.enter_context(folder.draft()))
        except BaseException:
            stack.close()
            raise
        return Download(stack, path, f"{name}-{kind}.zip")

    @app.get("/api/{id}/adapters/{name}/adapter.zip")
    async def adapter_zip(id: str, name: str) -> Response:
        shelf = shelves[entry(id).id]
        return await asyncio.to_thread(download, id, name, "adapter", lambda draft: shelf.packed(name, draft / "adapter.zip"))

    @app.get("/api/{id}/adapters/{name}/folded.zip")
    async def folded_zip(id: str, name: str) -> Response:
        shelf = shelves[entry(id).id]
        return await gate(download, id, name, "folded", lambda draft: shelf.folded(name, draft))

    @app.post("/api/{id}/sounds", status_code=201)
    async def upload(id: str, request: Request) -> dict[str, Any]:
        one = entry(id)
        rate = int(getattr(one.encoder.policy, "sample_rate", 0))
        async with uploads:  # before anything is read, so that memory is bounded
            data = bytearray()
            try:
                async with asyncio.timeout(UPLOAD_SECONDS):
                    async for part in request.stream():
                        data += part
            except TimeoutError:
                raise Problem(408, "the upload took too long") from None
            values = await asyncio.to_thread(decoder.decoded, bytes(data), one.media, rate, limits.seconds)
            return await asyncio.to_thread(heard.add, one, values, rate)

    @app.get("/api/{id}/sounds/{sid}")
    async def sound(id: str, sid: str) -> dict[str, Any]:
        return heard.get(entry(id), sid).shown

    @app.post("/api/{id}/sounds/{sid}/scores")
    async def scores(id: str, sid: str, body: ScoresBody, turn: Turn) -> dict[str, Any]:
        one, source = entry(id), heard.source(entry(id), sid)

        def work() -> dict[str, Any]:
            change = one.changed(body.setting.read())
            before = of_sounds.scores(one, source, body.texts, None)
            return {"before": before, "after": None if change is None else of_sounds.scores(one, source, body.texts, change)}

        return await turn(work)

    @app.post("/api/{id}/sounds/{sid}/shares")
    async def shares(id: str, sid: str, body: TowardsBody, turn: Turn) -> dict[str, Any]:
        one, source = entry(id), heard.source(entry(id), sid)

        def work() -> dict[str, Any]:
            change, towards = one.changed(body.setting.read()), one.towards(body.text, body.number)
            after = None if change is None else of_sounds.shares(one, source, towards, change)
            return {**of_sounds.shares(one, source, towards, None), "after": after}

        return await turn(work)

    @app.post("/api/{id}/sounds/{sid}/map")
    async def where(id: str, sid: str, body: TowardsBody, turn: Turn) -> dict[str, Any]:
        one, source = entry(id), heard.source(entry(id), sid)

        def work() -> dict[str, Any]:
            change = one.changed(body.setting.read())
            return of_sounds.written(one, source, one.towards(body.text, body.number), body.units, change)

        return await turn(work)

    @app.post("/api/{id}/ask")
    async def ask(id: str, body: TextBody, turn: Turn) -> dict[str, Any]:
        return await turn(asked, entry(id), body.text)

    @app.post("/api/{id}/steer")
    async def steering(id: str, body: SteerBody, turn: Turn) -> dict[str, Any]:
        return await turn(steered, entry(id), body.more, body.less, body.strength, body.controls)

    @app.post("/api/{id}/sounds/{sid}/explain")
    async def explanation(id: str, sid: str, body: ExplainBody, turn: Turn) -> dict[str, Any]:
        return await turn(explained, entry(id), heard.source(entry(id), sid), body.text, body.number, body.curves)

    @app.get("/api/{id}/datasets")
    async def datasets(id: str) -> dict[str, Any]:
        return {"datasets": await asyncio.to_thread(labels[entry(id).id].listed)}

    @app.get("/api/{id}/datasets/{name}")
    async def dataset(id: str, name: str) -> dict[str, Any]:
        return await asyncio.to_thread(labels[entry(id).id].shown, name)

    @app.post("/api/{id}/datasets/{name}/labels")
    async def label(id: str, name: str, body: LabelBody) -> dict[str, Any]:
        one = entry(id)
        what = heard.get(one, body.sound) if body.sound is not None else body.row
        if what is None or (body.sound is not None and body.row is not None):
            raise Problem(422, "label either a sound or a row")
        return await asyncio.to_thread(labels[one.id].label, name, what, body.label)

    @app.delete("/api/{id}/datasets/{name}", status_code=204)
    async def drop(id: str, name: str) -> Response:
        await asyncio.to_thread(labels[entry(id).id].delete, name)
        return Response(status_code=204)

    @app.post("/api/{id}/jobs", status_code=202)
    async def train(id: str, body: JobBody) -> dict[str, Any]:
        one = entry(id)
        begin = None if body.setting is None else await gate(one.changed, body.setting.read())
        return await asyncio.to_thread(queued, jobs, shelves[one.id], labels[one.id], body, order(one), begin)

    return app


class Download(FileResponse):
    """A whole file, and what is done when it has been sent, or when it could not be."""

    def __init__(self, stack: ExitStack, path: Any, name: str) -> None:
        super().__init__(path, filename=name, media_type="application/zip")
        self.stack = stack

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(key, value) for key, value in scope["headers"] if key not in (b"range", b"if-range")]
        try:
            await super().__call__({**scope, "headers": headers}, receive, send)
        finally:
            self.stack.close()


def page(html: bytes) -> Response:
    """A page with its own policy as a header too, and in nobody's frame."""
    found = POLICY.search(html[:20_000].decode(errors="replace"))
    policy = found[1].replace("&#39;", "'") if found else "default-src 'none'"
    headers = {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'", "Cache-Control": "no-cache"}
    return Response(html, headers=headers, media_type="text/html; charset=utf-8")
