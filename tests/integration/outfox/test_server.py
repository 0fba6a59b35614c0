"""Rounds on a server: the same frames as from a folder, whatever happens to the connection."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
import outfox.server
from tests.fakes.cutting_proxy import cutting_proxy
from tests.integration.outfox.corrupting_server import (
    CorruptingServer,
    Damage,
    corrupting_server,
    intact,
    labelled_as_gzip,
    last_byte_changed,
)
from tests.integration.plugin.web.served import Served

LISTING = ["sentiment", "manifest.json"]

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def damaging(archives: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CorruptingServer]:
    """A server that damages files; the client retries as often as it does in use."""
    monkeypatch.setattr(outfox.server, "BACKOFF", (0.0,) * 4)
    with corrupting_server(archives) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("table", ["load", "votes", "attempts", "contexts", "models", "metrics"])
@pytest.mark.parametrize("rounds", [None, 1, [2]])
def test_a_server_and_a_folder_give_the_same_frame(served: Served, table: str, rounds: Any) -> None:
    read = getattr(outfox, table)
    remote = read("sentiment", rounds, url=served.web.url, token=served.token)
    local = read("sentiment", rounds, path=served.path)
    pd.testing.assert_frame_equal(remote, local)
    assert (remote.attrs, len(remote) > 0) == (local.attrs, True)


def test_a_server_and_a_folder_give_the_same_chunks_and_exports(served: Served, tmp_path: Path) -> None:
    server: dict[str, Any] = {"url": f"{served.web.url}/", "token": served.token}
    chunks = list(outfox.iter_load("sentiment", chunk=7, columns=["id", "text"], **server))
    whole = outfox.load("sentiment", path=served.path, columns=["id", "text"])
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)
    for name, place in (("remote", server), ("local", {"path": served.path})):
        outfox.export("sentiment", "dynasent", tmp_path / name, **place)
    assert (tmp_path / "remote" / "train.jsonl").read_bytes() == (tmp_path / "local" / "train.jsonl").read_bytes()


def test_a_broken_download_is_resumed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outfox.server, "PIECE_BYTES", 100)
    with cutting_proxy(served.web.url) as proxy:
        # The manifest arrives; the table is refused once, then cut off.
        proxy.plan = [10_000_000, -503, 1_000]
        frame = outfox.load("sentiment", 1, url=proxy.url, token=served.token)
    pd.testing.assert_frame_equal(frame, outfox.load("sentiment", 1, path=served.path))
    assert [part for name, part in proxy.asked if name == "examples.parquet"] == ["", "", "bytes=1000-"]


def test_a_download_that_keeps_breaking_is_not_cached(served: Served, cache: Path) -> None:
    with cutting_proxy(served.web.url) as proxy:
        proxy.plan = [10_000_000, 1_000, 1_000, 1_000]
        with pytest.raises(outfox.ServerUnavailable):
            outfox.load("sentiment", 1, url=proxy.url, token=served.token)
    assert [file.suffix for file in cache.iterdir()] == [".json"]


@pytest.mark.parametrize(
    ("task", "wanted", "error"),
    [
        ("sentiment", {"token": None}, outfox.AccessDenied),
        ("sentiment", {"token": "x"}, outfox.AccessDenied),
        ("qa", {}, outfox.AccessDenied),
        ("nli", {"token": None}, outfox.DataNotFound),
        ("sentiment", {"rounds": 9}, outfox.DataNotFound),
        ("sentiment", {"columns": ["odd"]}, outfox.DataNotFound),
    ],
)
def test_what_the_server_does_not_give_is_an_error_without_the_token(
    served: Served, task: str, wanted: dict[str, Any], error: type[outfox.OutfoxError]
) -> None:
    with pytest.raises(error) as caught:
        outfox.load(task, **{"url": served.web.url, "token": served.token, **wanted})
    assert str(caught.value).isprintable()
    assert served.token not in str(caught.value)


def test_an_address_without_an_outfox_server_is_an_error(
    served: Served, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outfox.server, "BACKOFF", ())
    monkeypatch.setattr(outfox.server, "TIMEOUTS", (0.2, 0.2))
    with pytest.raises(outfox.ServerError) as refused:
        outfox.load("sentiment", url=f"{served.web.url}/metrics")
    assert (refused.value.code, refused.value.retry) == ("server_error", False)
    for url in (silent, silent.replace("http:", "https:"), "http://127.0.0.1:9"):
        with pytest.raises(outfox.ServerUnavailable) as caught:
            outfox.load("sentiment", url=url)
        assert (caught.value.code, caught.value.retry) == ("server_unavailable", True)
        assert url in str(caught.value)
        assert caught.value.__cause__ is not None


def test_a_token_may_end_with_a_newline(served: Served) -> None:
    assert len(outfox.votes("sentiment", 1, url=served.web.url, token=f" {served.token}\r\n")) > 0


@pytest.mark.parametrize("damage", [last_byte_changed, labelled_as_gzip])
def test_a_damaged_file_is_requested_again(archives: Path, damaging: CorruptingServer, damage: Damage) -> None:
    damaging.damage = [damage, intact]
    votes = outfox.votes("sentiment", 1, url=damaging.url)
    pd.testing.assert_frame_equal(votes, outfox.votes("sentiment", 1, path=archives))
    assert damaging.requested == [*LISTING, "votes.parquet", "votes.parquet"]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("damage", [last_byte_changed, labelled_as_gzip])
def test_a_file_that_is_damaged_twice_is_an_error(
    cache: Path, damaging: CorruptingServer, damage: Damage, verify: bool
) -> None:
    damaging.damage = [damage]
    with pytest.raises(outfox.TransferCorrupt):
        outfox.votes("sentiment", 1, url=damaging.url, verify=verify)
    assert damaging.requested == [*LISTING, "votes.parquet", "votes.parquet"]
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_a_file_that_the_server_reports_as_corrupt_is_not_requested_again(served: Served) -> None:
    file = served.path / "sentiment" / "round-1" / "votes.parquet"
    content = file.read_bytes()
    file.write_bytes(last_byte_changed(content)[0])
    try:
        with cutting_proxy(served.web.url) as proxy, pytest.raises(outfox.ServerError) as caught:
            outfox.votes("sentiment", 1, url=proxy.url, token=served.token)
        status, headers, body = served.ask("/data/sentiment/rounds/1/votes.parquet")
    finally:
        file.write_bytes(content)
    assert caught.value.retry is False
    assert [name for name, _ in proxy.asked] == [*LISTING, "votes.parquet"]
    assert (status, json.loads(body)["retry"], "Retry-After" in headers) == (503, False, False)


def test_a_manifest_of_another_round_is_refused(damaging: CorruptingServer) -> None:
    damaging.listing = damaging.listing.replace(b'"round": 1', b'"round": 7')
    with pytest.raises(outfox.DataCorrupt):
        outfox.load("sentiment", 7, url=damaging.url)


@pytest.mark.parametrize(
    "listing",
    [
        b'{"rounds": [{"round": Infinity}]}',
        pytest.param(b"[" * 200_000, id="too deep"),
        b'{"rounds": [{"round": 1, "problem": "gone\\nfor \\u001b[31mgood"}]}',
    ],
)
def test_an_unexpected_listing_is_an_error_of_one_printable_line(damaging: CorruptingServer, listing: bytes) -> None:
    damaging.listing = listing
    with pytest.raises(outfox.ServerError) as error:
        outfox.load("sentiment", url=damaging.url)
    assert str(error.value).isprintable()
