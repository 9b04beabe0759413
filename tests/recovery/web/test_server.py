"""`scob review` as a process: addresses, ports, and what it says when it cannot serve."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from scob.errors import UserError
from scob.inference.web.address import address_of, check_address, is_loopback, open_socket
from scob.recovery import decisions
from support.review_process import ReviewProcess, decision

TOKEN = "a-long-enough-token"


def scob(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    start = ReviewProcess.START
    return subprocess.run(
        [sys.executable, "-c", start, "review", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_no_path_leads_to_a_file(run_folder: Path) -> None:
    with ReviewProcess(run_folder) as server:
        for path in ("/api/image/../../../etc/passwd", "/../suggestions.jsonl", "//etc/passwd",
                     "/review.js/../decisions.py",
                     "/api/image/%2e%2e%2f%2e%2e%2fsuggestions.jsonl", "/page/index.html", "/docs", "/openapi.json",
                     "/api/image/0%00.png"):  # fmt: skip
            raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)  # sends the path untouched
            raw.request("GET", path)
            answer = raw.getresponse()
            assert answer.status == 404, path
            assert b"root:" not in answer.read()


def test_reviewed_is_written_soon_and_after_a_kill(run_folder: Path) -> None:
    path = run_folder / "recovered/reviewed.csv"
    server = ReviewProcess(run_folder)
    httpx.post(f"{server.address}api/decisions", json=decision())
    server.kill()
    with ReviewProcess(run_folder) as again:
        httpx.get(again.address)
        assert "meadow-00.png,ball,+1" in path.read_text()
        httpx.post(f"{again.address}api/decisions", json=decision(1, "reject"))
        end = time.monotonic() + 15
        while "meadow-01.png" not in path.read_text() and time.monotonic() < end:
            time.sleep(0.1)
        assert "meadow-01.png" in path.read_text()


def test_a_port_in_use_is_one_sentence(run_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = scob(str(run_folder), "--port", str(port))
    assert done.returncode == 2 and done.stdout == ""
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_what_cannot_be_served_is_one_sentence(run_folder: Path, tmp_path: Path) -> None:
    for arguments, why in [
        ((str(tmp_path / "missing"),), "no run folder"),
        ((str(tmp_path),), "scob recover"),
        ((str(run_folder), "--host", "0.0.0.0"), "--token"),
        ((str(run_folder), "--host", "no.such.name.invalid", "--token", TOKEN), "no address"),
    ]:
        done = scob(*arguments)
        assert done.returncode == 2 and why in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_extra_one_sentence_names_it(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/fastapi.py").write_text("raise ImportError('No module named fastapi')")
    path = os.pathsep.join([str(tmp_path / "absent"), os.environ.get("PYTHONPATH", "")])
    done = scob(str(run_folder), PYTHONPATH=path)
    assert done.returncode == 2 and "pip install fastapi" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_first_and_what_to_do_last(run_folder: Path, by: signal.Signals) -> None:
    server = ReviewProcess(run_folder)
    assert server.address == f"http://127.0.0.1:{server.port}/" and httpx.get(server.address).status_code == 200
    httpx.post(f"{server.address}api/decisions", json=decision())
    said = server.stop(by)
    assert server.process.returncode == 0
    assert "1 accepted, 0 rejected" in said and "--import" in said and "Traceback" not in said


def test_reviewed_can_be_written_without_a_server(run_folder: Path) -> None:
    decisions.DecisionLog(run_folder / "recovered").append(decisions.Decision("meadow-00.png", "ball", "reject"))
    assert scob(str(run_folder), "--write").returncode == 0
    assert "meadow-00.png,ball,-1" in (run_folder / "recovered/reviewed.csv").read_text()


def test_addresses_are_written_for_a_browser() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        assert address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}/"


def test_other_addresses_need_a_token() -> None:
    for host in ("0.0.0.0", "192.168.0.7", "::", "example.org"):
        with pytest.raises(UserError, match="--token"):
            check_address(host, None)
        check_address(host, TOKEN)
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        check_address(host, None)
        assert is_loopback(host)
    for poor in ("", "short", "ümlaut-ümlaut-ümlaut", "line\nbreak-line-break"):
        with pytest.raises(UserError, match="at least 12"):
            check_address("127.0.0.1", poor)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("given", [["--token", TOKEN], [f"--token={TOKEN}"]])
def test_the_token_is_not_in_the_list_of_processes(run_folder: Path, given: list[str]) -> None:
    with ReviewProcess(run_folder, *given) as server:
        assert TOKEN.encode() not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert httpx.get(f"{server.address}api/queue").status_code == 401
        assert httpx.get(f"{server.address}api/queue", headers={"X-Scob-Token": TOKEN}).status_code == 200


def test_a_client_that_disconnects_in_the_middle_prints_nothing(run_folder: Path) -> None:
    with ReviewProcess(run_folder) as server:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
                head = f"POST /api/decisions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 200\r\n\r\n{{".encode())
                time.sleep(0.2)
        assert httpx.post(f"{server.address}api/decisions", json=decision()).json()["applied"]
        printed = server.stop()
    assert "Traceback" not in printed and "ClientDisconnect" not in printed and "ERROR" not in printed, printed
