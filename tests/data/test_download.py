"""Downloads from a local server that drops the connection, sends the wrong content, or is not there."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scob.data import download as module
from scob.data.download import Archive, Benchmark, download, fetch, unpack
from scob.errors import UserError


class Server(ThreadingHTTPServer):
    """Serves `files`; cuts the first `drops` answers off half-way; may ignore ranges."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.drops = 0
        self.ranges = True
        self.ranges_asked: list[str | None] = []

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.files.get(self.path.strip("/"))
        wanted = self.headers.get("Range")
        self.server.ranges_asked.append(wanted)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted.split("=")[1].rstrip("-")) if wanted and self.server.ranges else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if self.server.drops:
            self.server.drops -= 1
            self.wfile.write(rest[: len(rest) // 2])
            self.close_connection = True
            return
        self.wfile.write(rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()


def tar_of(files: dict[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            archive.addfile(info)
    return out.getvalue()


def serve(server: Server, name: str, content: bytes, md5: str | None = None) -> Archive:
    server.files[name] = content
    return Archive(server.address(name), md5 or hashlib.md5(content).hexdigest())


BODY = bytes(range(256)) * 4000


def test_a_connection_dropped_half_way_is_resumed(server: Server, tmp_path: Path) -> None:
    archive = serve(server, "a.tar", BODY)
    server.drops = 2
    seen: list[tuple[str, int, int]] = []
    path = fetch(archive, tmp_path, lambda *step: seen.append(step), wait=0)
    assert path.read_bytes() == BODY
    assert server.ranges_asked[0] is None
    assert server.ranges_asked[1] == f"bytes={len(BODY) // 2}-"
    assert len(server.ranges_asked) == 3
    assert ("a.tar", len(BODY), len(BODY)) in seen
    assert not (tmp_path / "a.tar.part").exists()


def test_a_download_cut_off_in_an_earlier_run_is_continued(server: Server, tmp_path: Path) -> None:
    archive = serve(server, "a.tar", BODY)
    server.drops = 99
    with pytest.raises(UserError, match=r"connection was dropped.*run the same command again"):
        fetch(archive, tmp_path, wait=0)
    before = (tmp_path / "a.tar.part").stat().st_size
    assert 0 < before < len(BODY)
    server.drops = 0
    assert fetch(archive, tmp_path, wait=0).read_bytes() == BODY
    assert server.ranges_asked[-1] == f"bytes={before}-"


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    archive = serve(server, "a.tar", BODY)
    server.drops, server.ranges = 1, False
    assert fetch(archive, tmp_path, wait=0).read_bytes() == BODY


def test_a_part_that_is_complete(server: Server, tmp_path: Path) -> None:
    archive = serve(server, "a.tar", BODY)
    (tmp_path / "a.tar.part").write_bytes(BODY)
    assert fetch(archive, tmp_path, wait=0).read_bytes() == BODY


def test_a_wrong_checksum_is_refused_and_removed(server: Server, tmp_path: Path) -> None:
    archive = serve(server, "a.tar", BODY, md5="0" * 32)
    with pytest.raises(UserError, match=r"a\.tar has the checksum .*, but it should be 0{32}: "):
        fetch(archive, tmp_path, wait=0)
    assert list(tmp_path.iterdir()) == []


def test_offline_says_what_to_place_where(tmp_path: Path) -> None:
    archive = Archive("http://127.0.0.1:9/a.tar", "0" * 32)
    with pytest.raises(
        UserError, match=rf"cannot download http://127\.0\.0\.1:9/a\.tar.*place it at {tmp_path}/a\.tar"
    ):
        fetch(archive, tmp_path, wait=0)


def test_an_archive_placed_by_hand_is_used(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(BODY)
    archive = Archive("http://127.0.0.1:9/a.tar", hashlib.md5(BODY).hexdigest())
    assert fetch(archive, tmp_path) == tmp_path / "a.tar"


def test_an_address_that_is_gone(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the server says 404"):
        fetch(Archive(server.address("none.tar"), "0" * 32), tmp_path, wait=0)


def test_two_archives_become_one_folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = serve(server, "one.tar", tar_of({"VOCdevkit/VOC2007/JPEGImages/1.jpg": b"1"}))
    two = serve(server, "two.tar", tar_of({"VOCdevkit/VOC2007/JPEGImages/2.jpg": b"2"}))
    monkeypatch.setitem(module.BENCHMARKS, "voc2007", Benchmark((one, two), "VOC2007", "VOCdevkit/VOC2007"))
    folder = download("voc2007", tmp_path / "data", wait=0)
    assert sorted(p.name for p in (folder / "JPEGImages").iterdir()) == ["1.jpg", "2.jpg"]
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["VOC2007"]
    requests = len(server.ranges_asked)
    assert download("voc2007", tmp_path / "data") == folder
    assert len(server.ranges_asked) == requests  # nothing is downloaded twice


def test_a_failed_second_archive_puts_nothing_in_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = serve(server, "one.tar", tar_of({"a/1": b"1"}))
    two = serve(server, "two.tar", b"", md5="0" * 32)
    monkeypatch.setitem(module.BENCHMARKS, "cub", Benchmark((one, two), "CUB"))
    with pytest.raises(UserError):
        download("cub", tmp_path, wait=0)
    assert not (tmp_path / "CUB").exists()
    assert (tmp_path / "one.tar").exists()  # complete and checked: the next run need not download it


def test_no_such_benchmark(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="voc2007, voc2012, coco2014, cub"):
        download("imagenet", tmp_path)


@pytest.mark.parametrize("name", ["../out", "/etc/out"])
def test_members_that_would_leave_the_folder(tmp_path: Path, name: str) -> None:
    into = tmp_path / "into"
    into.mkdir()
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({name: b"x"}))
    with pytest.raises(UserError, match="would be written outside the folder"):
        unpack(path, into)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, b"x")
    (tmp_path / "a.zip").write_bytes(out.getvalue())
    with pytest.raises(UserError, match="would be written outside the folder"):
        unpack(tmp_path / "a.zip", into)
    assert not (tmp_path / "out").exists()


def test_links_out_and_damaged_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"a": b"1"}, ("link", "../../secret")))
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(path, tmp_path / "into")
    path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(path, tmp_path / "into")
