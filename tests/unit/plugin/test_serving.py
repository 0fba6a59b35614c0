"""Ports for our servers: free now, and still theirs when they come back."""

import socket
from pathlib import Path

import pytest
from flask import Flask

from plugin import serving
from plugin.errors import PluginError
from plugin.serving import HOST, free_port

GIVEN_BY_SYSTEM = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_free_port_can_be_served_on_and_differs_from_the_last() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 15
    with socket.create_server((HOST, ports.pop())):
        pass


@pytest.mark.skipif(not GIVEN_BY_SYSTEM.exists(), reason="this system does not tell which ports it gives away")
def test_a_free_port_is_none_that_the_system_gives_to_somebodys_request() -> None:
    first, last = map(int, GIVEN_BY_SYSTEM.read_text(encoding="ascii").split())
    if first <= serving.LASTING_PORTS.start:
        pytest.skip("this system gives every port away")
    assert not [port for port in (free_port() for _ in range(200)) if first <= port <= last]


def test_a_taken_port_is_told_once_and_in_our_words(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PluginError, match="is taken; choose another"):
        serving.serve_locally(Flask("x"), taken.getsockname()[1], open_browser=False)
    assert capfd.readouterr() == ("", "")


def test_a_taken_port_is_passed_over_and_a_machine_without_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as taken, socket.create_server((HOST, 0)) as other:
        mine, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        monkeypatch.setattr(serving, "LASTING_PORTS", [mine, free])
        assert {free_port() for _ in range(10)} == {free}
        monkeypatch.setattr(serving, "LASTING_PORTS", [mine])
        with pytest.raises(PluginError, match="is taken"):
            free_port()
