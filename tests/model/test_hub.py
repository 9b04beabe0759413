"""The hub, played by a server on this machine, and what happens without one."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scob.model.hub import fetch_file, hub_is_reachable, is_stored, stored_file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def stored(cache: Path, *files: str) -> None:
    folder = cache / "models--somebody--net"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    for file in files:
        (folder / "snapshots" / "abc").mkdir(parents=True, exist_ok=True)
        (folder / "snapshots" / "abc" / file).write_text("{}")


def test_a_hub_that_answers_is_reachable_unless_offline_is_asked_for(
    cache: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub_is_reachable(5)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not hub_is_reachable(5)


def test_a_hub_that_never_answers_is_given_up_in_time_and_remembered(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, says nothing
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr("scob.model.hub.REMEMBERED_SECONDS", 1e9)
        began = time.monotonic()
        assert not hub_is_reachable(0.5)
        first = time.monotonic() - began
        assert not hub_is_reachable(0.5)
        assert first < 2 and time.monotonic() - began - first < 0.2


def test_files_on_this_machine_need_no_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    stored(cache, "config.json")
    assert stored_file("somebody/net", "config.json") is not None
    assert fetch_file("somebody/net", "config.json") == stored_file("somebody/net", "config.json")
    assert fetch_file("somebody/net", "preprocessor_config.json") is None
    assert not is_stored("somebody/net")
    stored_file_folder = cache / "models--somebody--net" / "snapshots" / "abc"
    (stored_file_folder / "model.safetensors").write_bytes(b"")
    assert is_stored("somebody/net")
    assert stored_file("not a / name", "config.json") is None


def test_a_file_the_hub_does_not_have_is_none(cache: Path, endpoint: str) -> None:
    assert fetch_file("somebody/net", "preprocessor_config.json") is None
