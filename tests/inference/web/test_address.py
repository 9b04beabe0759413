"""Where a server may listen, and that it stops cleanly. (tests/recovery/web/test_server.py has more.)"""

import socket

import pytest

from scob.errors import UserError
from scob.inference.web.address import address_of, check_address, is_loopback, open_socket


def test_other_machines_need_a_token() -> None:
    check_address("127.0.0.1", None)
    check_address("0.0.0.0", "a-long-enough-token")
    with pytest.raises(UserError, match="set a secret with --token"):
        check_address("0.0.0.0", None)
    with pytest.raises(UserError, match="at least 12 plain characters"):
        check_address("0.0.0.0", "short")


def test_loopback_names() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 is in use"):
            open_socket("127.0.0.1", port)
    with open_socket("127.0.0.1", 0) as listening:
        assert address_of(listening).startswith("http://127.0.0.1:")
