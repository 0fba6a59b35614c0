"""Invalid requests get a clear error response, never a 500 and never none."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from templates import find_pack
from tests.fakes import calls
from tests.fakes.slow_clients import SlowClients
from tests.integration.ml_backend.serving.running import Answer, Running, running

pytestmark = pytest.mark.xdist_group("serving-faults")
PREDICT = b"POST /tasks/qa/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("faults") / "folder", silence=0.3) as found:
        yield found


def refused(answer: Answer, *statuses: int) -> str:
    assert answer.status in statuses
    assert answer.headers["content-type"] == "application/json"
    text: str = answer.json["error"]
    assert text
    assert "\n" not in text
    return text


def test_a_megabyte_of_text_is_refused(backend: Running) -> None:
    pack = find_pack("sentiment")
    answer = backend.predict("sentiment", calls.predict(pack, calls.writes(pack, "x" * 1_000_000)))
    assert "1,000,000 characters" in refused(answer, 413)


def test_twenty_megabytes_are_refused_before_they_are_read(backend: Running) -> None:
    assert "16,000,000 bytes" in refused(backend.predict("qa", b" " * 20_000_000), 413)
    assert backend.request("GET", "/health").status == 200


def test_ten_thousand_tasks_in_one_call_are_answered(backend: Running) -> None:
    pack = find_pack("sentiment")
    empty = backend.predict("sentiment", calls.bulk(pack, 10_000))
    assert (empty.status, len(empty.json["results"])) == (200, 10_000)
    full = backend.predict("sentiment", calls.bulk(pack, 10_000, text="It looks negative."))
    assert (full.status, len(calls.shown(full.json))) == (200, 10_000)
    assert "10,000" in refused(backend.predict("sentiment", calls.bulk(pack, 10_001)), 413)


@pytest.mark.parametrize("body", [b"", b"{", b"\x00\x01", b"null", b"[]", b'"x"', b"NaN", b"{}" * 3, b"[" * 200_000])
def test_malformed_json_is_refused(backend: Running, body: bytes) -> None:
    refused(backend.predict("qa", body), 400)


@pytest.mark.parametrize("name", ["tasks", "data", "passage"])
def test_missing_fields_are_refused_by_name(backend: Running, name: str) -> None:
    pack = find_pack("qa")
    body = calls.predict(pack, calls.writes(pack, "Who?"))
    places: dict[str, dict[str, Any]] = {"tasks": body, "data": body["tasks"][0], "passage": body["tasks"][0]["data"]}
    del places[name][name]
    assert f"`{name}`" in refused(backend.predict("qa", body), 400, 422)


def test_the_wrong_project_is_refused(backend: Running) -> None:
    nli = find_pack("nli")
    refused(backend.predict("qa", calls.predict(nli, calls.writes(nli, "It rains."))), 422)
    body = calls.predict(nli, calls.writes(nli, "It rains.")) | {"project": "elsewhere"}
    refused(backend.predict("nli", body), 400)


def test_a_client_that_stops_in_the_middle_of_its_body_gets_an_error(backend: Running) -> None:
    with socket.create_connection(("127.0.0.1", backend.port), timeout=30) as client:
        client.sendall(PREDICT + b"Content-Length: 500\r\n\r\n{")
        answer = client.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert backend.request("GET", "/health").status == 200


def test_slow_clients_do_not_delay_others(backend: Running) -> None:
    with SlowClients(backend.port, 120, "/tasks/qa/predict", seconds=0.1):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", backend.port), timeout=5) as client:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(65_536).startswith(b"HTTP/1.1 200")
    assert not [one for one in backend.events() if one["level"] == "error"]


def test_a_client_that_stops_in_the_middle_of_a_head_is_disconnected(backend: Running) -> None:
    with socket.create_connection(("127.0.0.1", backend.port), timeout=30) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHo")
        assert client.recv(65_536) == b""


def test_a_client_that_disconnects_leaves_nothing_behind(backend: Running) -> None:
    pack = find_pack("qa")
    body = json.dumps(calls.predict(pack, calls.writes(pack, "Who?"))).encode()
    head = PREDICT + f"Content-Length: {len(body)}\r\n\r\n".encode()
    for piece in (head[:20], head, head + body[:50], head + body):
        with socket.create_connection(("127.0.0.1", backend.port), timeout=30) as client:
            client.sendall(piece)
    assert backend.request("GET", "/health").status == 200
    assert backend.status()["queue"]["busy"] == 0


def test_a_body_in_chunks_is_read_and_a_broken_chunk_is_refused(backend: Running) -> None:
    pack = find_pack("qa")
    body = json.dumps(calls.predict(pack, calls.writes(pack, "Who?"))).encode()
    head = PREDICT + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    for chunks, status in ((whole, b"200"), (b"zz\r\n{}\r\n0\r\n\r\n", b"400")):
        with socket.create_connection(("127.0.0.1", backend.port), timeout=30) as client:
            client.sendall(head + chunks)
            assert client.recv(65_536).split()[1] == status


def test_two_requests_sent_at_once_on_one_connection_are_both_answered(backend: Running) -> None:
    pack = find_pack("qa")
    body = json.dumps(calls.predict(pack)).encode()
    head = PREDICT + f"Content-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", backend.port), timeout=30) as client:
        client.sendall((head + body) * 2)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 2 or got.count(b'"model_version":"v1"}') < 2:
            more = client.recv(65_536)
            assert more, got
            got += more
