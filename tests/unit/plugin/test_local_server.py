"""Free ports, and the server of previews."""

import socket
from pathlib import Path

import pytest
from flask import Flask

from plugin import local_server
from plugin.local_server import HOST, PortTaken, free_port

OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_free_port_can_be_served_on_and_differs_from_the_last() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 15
    with socket.create_server((HOST, ports.pop())):
        pass


@pytest.mark.skipif(not OUTGOING_PORTS.exists(), reason="this system does not list its range of outgoing ports")
def test_a_free_port_is_outside_the_range_of_outgoing_connections() -> None:
    first, last = map(int, OUTGOING_PORTS.read_text(encoding="ascii").split())
    if first <= local_server.SERVER_PORTS.start:
        pytest.skip("this system uses every port for outgoing connections")
    assert not [port for port in (free_port() for _ in range(200)) if first <= port <= last]


def test_a_taken_port_raises_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PortTaken):
        local_server.serve_locally(Flask("x"), taken.getsockname()[1], open_browser=False)
    assert capfd.readouterr() == ("", "")


def test_taken_ports_are_skipped_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as taken, socket.create_server((HOST, 0)) as other:
        mine, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        monkeypatch.setattr(local_server, "SERVER_PORTS", [mine, free])
        assert {free_port() for _ in range(10)} == {free}
        monkeypatch.setattr(local_server, "SERVER_PORTS", [mine])
        with pytest.raises(PortTaken):
            free_port()
