"""Trainings: one runs at a time in a process of its own, others wait; a cancelled one leaves nothing behind."""

from __future__ import annotations

import json
import logging
import secrets
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from ..adaptation.adapter import save_adapter
from ..adaptation.gain import ResiDual
from .folder import Folder
from .problems import Problem, busy
from .shelf import Shelf

log = logging.getLogger("residual_audio.serve")
REMEMBERED = 50  # finished jobs that can still be asked about
LINE = 1_000_000  # characters of one line of news


@dataclass
class Job:
    """``order``: what its process is told, but for where to write."""

    id: str
    entry: str
    name: str
    dataset: str | None
    method: str
    order: dict[str, Any]
    shelf: Shelf
    replace: bool
    begin: ResiDual | None = None
    state: str = "queued"
    news: dict[str, Any] = field(default_factory=lambda: {"text": "waiting", "done": 0, "total": None})
    history: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    process: subprocess.Popen[str] | None = None

    def record(self, place: int = 0) -> dict[str, Any]:
        known = {key: self.result.get(key) for key in ("before", "after")}
        return {
            "id": self.id, "entry": self.entry, "name": self.name, "dataset": self.dataset, "method": self.method, "state": self.state,
            "place": place, **self.news, "history": list(self.history), "reasons": self.result.get("reasons", []),
            "held": self.result.get("held", {}), **known, "error": self.error,
        }  # fmt: skip

    def hear(self, line: str) -> None:
        """A line of news from its process."""
        news = json.loads(line)
        if "advance" in news:
            self.news["done"] += int(news["advance"])
        if "total" in news:
            self.news |= {"total": int(news["total"]), "done": 0}
        if "text" in news:
            self.news["text"] = str(news["text"])[:400]
        if "epoch" in news:
            self.history.append(news["epoch"])
        if news.get("done"):
            self.result = news
        if "error" in news:
            self.error = str(news["error"])


class Jobs:
    """The queue of a server, and the thread that works it off."""

    def __init__(self, folder: Folder, waiting: int) -> None:
        self.folder, self.waiting = folder, waiting
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.changed, self.ending = Condition(), False
        self.thread = Thread(target=self.work, name="trainings", daemon=True)
        self.thread.start()

    @property
    def queued(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "queued"]

    def add(
        self, shelf: Shelf, name: str, dataset: str | None, method: str, order: dict[str, Any], replace: bool,
        begin: ResiDual | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        shelf.free(name, replace)
        with self.changed:
            active = [job for job in self.jobs.values() if job.state in ("queued", "running")]
            if any(job.entry == shelf.entry.id and job.name == name for job in active):
                raise Problem(409, "an adapter of that name is being trained")
            if len(self.queued) >= self.waiting:
                raise busy(f"{self.waiting} trainings wait already; come back when some are done", 30, 429)
            job = Job(secrets.token_hex(8), shelf.entry.id, name, dataset, method, order, shelf, replace, begin)
            self.jobs[job.id] = job
            finished = [one for one in self.jobs.values() if one.state not in ("queued", "running")]
            for old in finished[: max(0, len(finished) - REMEMBERED)]:
                del self.jobs[old.id]
            self.changed.notify_all()
            return job.record(len(self.queued) - 1)

    def listed(self) -> list[dict[str, Any]]:
        with self.changed:
            waiting = [job.id for job in self.queued]
            return [job.record(waiting.index(job.id) if job.id in waiting else 0) for job in self.jobs.values()]

    def get(self, id: str) -> dict[str, Any]:
        found = next((record for record in self.listed() if record["id"] == id), None)
        if found is None:
            raise Problem(404, "no such training")
        return found

    def cancel(self, id: str) -> dict[str, Any]:
        """Ends at once; whatever it had written is gone before this returns, or nearly."""
        with self.changed:
            job = self.jobs.get(id)
            if job is None:
                raise Problem(404, "no such training")
            if job.state in ("queued", "running"):
                job.state = "cancelled"
                job.news["text"] = "cancelled"
                if job.process is not None:
                    job.process.kill()
                self.changed.notify_all()
                self.changed.wait_for(lambda: job.process is None, timeout=10)
        return self.get(id)

    def end(self) -> None:
        with self.changed:
            self.ending = True
            for job in self.jobs.values():
                if job.state in ("queued", "running"):
                    job.state = "cancelled"
                if job.process is not None:
                    job.process.kill()
            self.changed.notify_all()
        self.thread.join(timeout=10)

    def work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.ending or self.queued)
                if self.ending:
                    return
                job = self.queued[0]
                job.state = "running"
                try:
                    job.process = started()
                except OSError as error:  # no memory or no files left: the next one may have more luck
                    job.state, job.error, job.news["text"] = "failed", f"the training could not be started ({error})", "failed"
                    self.changed.notify_all()
                    continue
            try:
                self.run(job, job.process)
            except Exception as error:
                log.exception("training %s failed", job.id)
                job.error = job.error or (error.message if isinstance(error, Problem) else f"the training failed ({type(error).__name__})")
            with self.changed:
                if job.state == "running":
                    job.state = "failed"
                    job.news["text"] = "failed"
                job.process = None
                self.changed.notify_all()

    def run(self, job: Job, process: subprocess.Popen[str]) -> None:
        """Follow one process to its end. What it wrote takes its place only if nobody cancelled it."""
        with self.folder.draft() as draft, process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                begin = None if job.begin is None else str(save_adapter(draft / "begin", job.shelf.entry.encoder, job.begin))
                order = {**job.order, "method": job.method, "draft": str(draft / "adapter"), "begin": begin}
                process.stdin.write(json.dumps(order) + "\n")
                process.stdin.flush()
                while line := process.stdout.readline(LINE):
                    with self.changed:
                        job.hear(line)
            finally:
                process.kill() if job.state == "cancelled" else None
                code = process.wait()
                process.stdin.close()
            with self.changed:
                if job.state != "running":
                    return
                if code or not job.result:
                    job.error = job.error or "the training ended without a result; the server's log says why"
                    return
                self.folder.put(draft / "adapter", job.shelf.free(job.name, job.replace))
                job.shelf.entry.forget(job.name)
                job.state, job.news["text"] = "done", "done"


def started() -> subprocess.Popen[str]:
    """A process that waits for its order."""
    words = [sys.executable, "-P", "-c", "from residual_audio.serve.training import main; main()"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
