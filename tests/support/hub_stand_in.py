"""A stand-in for the Hugging Face hub on this machine: what its client calls to create, fill and read a repository.

Files have the hub's layout: small ones are in the commit, large ones are uploaded through git-lfs and named by their
SHA-256. Repositories keep every commit.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "hf_stand_in"


class Hub(ThreadingHTTPServer):
    """Repositories by name; each is a list of commits, each commit a mapping from paths to bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.private: set[str] = set()
        self.uploaded: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def environment(self, cache: Path, token: str = TOKEN) -> dict[str, str]:
        """What points the hub's client here, with an empty cache."""
        return {
            "HF_ENDPOINT": self.address, "HF_HOME": str(cache), "HF_TOKEN": token, "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }  # fmt: skip


class Answer(BaseHTTPRequestHandler):
    """Answers as the hub does."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def send(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_json(self, content: Any, status: int = 200) -> None:
        self.send(status, json.dumps(content).encode(), Content_Type="application/json")

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def may_write(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.send_json({"error": "Invalid credentials in Authorization header"}, 401)
        return False

    # Writing.

    def do_POST(self) -> None:
        sent = self.body()
        if self.path == "/api/validate-yaml":
            self.send_json({"errors": [], "warnings": []})
        elif not self.may_write():
            return
        elif self.path == "/api/repos/create":
            self.create(json.loads(sent))
        elif re.fullmatch(r"/api/models/[^/]+/[^/]+/preupload/main", self.path):
            files = json.loads(sent)["files"]
            modes = {f["path"]: "lfs" if f["path"].endswith((".safetensors", ".onnx")) else "regular" for f in files}
            self.send_json(
                {"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]}
            )
        elif self.path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {**o, "actions": {"upload": {"href": f"{self.server.address}/lfs/{o['oid']}"}}}
                for o in json.loads(sent)["objects"]
            ]
            self.send_json({"transfer": "basic", "objects": objects})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
            self.commit(match.group(1), [json.loads(line) for line in sent.splitlines()])
        else:
            self.send_json({"error": f"the stand-in does not know {self.path}"}, 404)

    def create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        if wanted["organization"] == "somebody-else":
            self.send_json({"error": "You don't have the rights to create a model under this namespace"}, 403)
            return
        status = 409 if name in self.server.repositories else 200
        self.server.repositories.setdefault(name, [{}])
        if wanted.get("visibility") == "private" or wanted.get("private"):
            self.server.private.add(name)
        self.send_json({"url": f"{self.server.address}/{name}", "error": "You already created this repo"}, status)

    def commit(self, name: str, operations: list[dict[str, Any]]) -> None:
        files = dict(self.server.repositories[name][-1])
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.server.uploaded[value["oid"]]
        self.server.repositories[name].append(files)
        number = len(self.server.repositories[name]) - 1
        address = f"{self.server.address}/{name}/commit/{number:040x}"
        self.send_json({"commitUrl": address, "commitOid": f"{number:040x}"})

    def do_PUT(self) -> None:
        content, oid = self.body(), self.path.rpartition("/")[2]
        if hashlib.sha256(content).hexdigest() != oid:
            self.send_json({"error": "the content is not what its name says"}, 400)
            return
        self.server.uploaded[oid] = content
        self.send(200)

    # Reading.

    def do_GET(self) -> None:
        if self.path == "/":
            self.send(200)
            return
        match = re.match(r"(?:/api/models)?/([^/]+/[^/]+)(?:/(?:revision|tree|resolve)/([^/?]+))?", self.path)
        name, revision = match.groups() if match else ("", None)
        commits = self.server.repositories.get(name)
        hidden = name in self.server.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"
        if commits is None or hidden:
            self.send(401, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            return
        number = len(commits) - 1 if revision in (None, "main") else int(revision, 16)
        if number >= len(commits):
            self.send(404, b"{}", X_Error_Code="RevisionNotFound", X_Error_Message="Revision not found")
            return
        self.read(commits[number], name, f"{number:040x}")

    do_HEAD = do_GET

    def read(self, files: dict[str, bytes], name: str, commit: str) -> None:
        if self.path.startswith("/api/models"):
            listed = [{"type": "file", "path": p, "size": len(c), "oid": sha1(c)} for p, c in files.items()]
            siblings = [{"rfilename": path} for path in files]
            described = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False, "tags": []}
            self.send_json(listed if "/tree/" in self.path else described)
            return
        content = files.get(self.path.partition(f"/resolve/{self.path.split('/')[4]}/")[2])
        if content is None:
            self.send(404, b"{}", X_Error_Code="EntryNotFound", X_Error_Message="Entry not found", X_Repo_Commit=commit)
            return
        self.send(200, content, X_Repo_Commit=commit, ETag=f'"{sha1(content)}"', Accept_Ranges="bytes")


def sha1(content: bytes) -> str:
    """The name of a file's content in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def local_hub() -> Iterator[Hub]:
    """The stand-in, answering until the end of the block."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
