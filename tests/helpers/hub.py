"""A hub of one's own: the part of the model hub's HTTP interface that uploading and downloading small files need, in memory."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body: bytes | dict, status: int = 200, **headers: str) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        self.send_response(status)
        for key, value in {"Content_Length": str(len(data)), "X_Repo_Commit": COMMIT, **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def repository(self) -> str:
        """``me/gains`` of ``/api/models/me/gains/…`` and of ``/me/gains/resolve/…``."""
        return "/".join(self.path.removeprefix("/api/models").split("?")[0].split("/")[1:3])

    def files(self) -> dict[str, bytes]:
        return self.server.files.get(self.repository(), {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.tokens.append(self.headers["Authorization"])
        if self.headers["Authorization"] is None:
            self.answer({"error": "who are you?"}, 401)
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.server.created.append((name, asked.get("visibility") == "private" or bool(asked.get("private"))))
            self.server.files.setdefault(name, {})
            self.answer({"url": f"{self.server.address}/{name}"})
        elif "/preupload/" in self.path:
            files = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]]
            self.answer({"files": files})
        elif "/commit/" in self.path:
            for line in filter(None, body.split(b"\n")):
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files()[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self.answer({"success": True, "commitOid": COMMIT, "commitUrl": f"{self.server.address}/{self.repository()}/commit/{COMMIT}"})
        elif self.path == "/api/validate-yaml":
            self.answer({"warnings": [], "errors": []})
        else:
            self.answer({"error": f"no {self.path}"}, 404)

    def do_GET(self):
        self.server.asked.append(self.path)
        name = self.path.rpartition("/")[2].partition("?")[0]
        # An earlier commit has files of its own; everything else (main) is the latest.
        commit = next((c for c in self.server.earlier if c in self.path), COMMIT)
        files = self.server.earlier.get(commit, self.files())
        if "/resolve/" in self.path and name in files:
            data = files[name]
            self.answer(data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', Accept_Ranges="bytes", X_Repo_Commit=commit)
        elif "/tree/" in self.path:
            entries = [{"type": "file", "path": f, "size": len(d), "oid": hashlib.sha1(d).hexdigest()} for f, d in files.items()]
            self.answer(json.dumps(entries).encode(), Content_Type="application/json")
        elif self.path.startswith("/api/models/") and files:
            siblings, own = [{"rfilename": f} for f in files], self.repository()
            self.answer({"id": own, "modelId": own, "sha": commit, "siblings": siblings, "private": False, "tags": []})
        elif files and "/resolve/" in self.path:
            self.answer({"error": f"no {name}"}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        else:
            self.answer({"error": f"no {self.path}"}, 404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET


@contextmanager
def running_hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.created, server.tokens, server.earlier, server.asked = {}, [], [], {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
