"""What a server sends and is not what was frozen: asked for once more at most, and told in one line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import outfox
from tests.fakes.cutting_proxy import cutting_proxy
from tests.integration.databases import Databases
from tests.integration.rounds_data.served import Served, empty_cache, serving_rounds
from tests.integration.rounds_data.spoiling import (
    Fate,
    SpoilingServer,
    as_it_is,
    as_no_gzip,
    spoiling_server,
    with_another_byte,
)

ONCE = ["sentiment", "manifest.json"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Iterator[Served]:
    with serving_rounds(tmp_path_factory.mktemp("served"), any_databases.migrated(), {}) as found:
        yield found


@pytest.fixture
def spoiler(archives: Path) -> Iterator[SpoilingServer]:
    with spoiling_server(archives) as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and as many tries as researchers have, but no long waits."""
    folder = empty_cache(tmp_path, monkeypatch)
    monkeypatch.setattr(outfox, "WAITS", (0.01,) * 4)
    return folder


@pytest.mark.parametrize("fate", [with_another_byte, as_no_gzip])
def test_a_file_that_was_spoiled_on_the_way_is_asked_for_once_more(
    archives: Path, spoiler: SpoilingServer, fate: Fate
) -> None:
    spoiler.fates = [fate, as_it_is]
    votes = outfox.votes("sentiment", 1, url=spoiler.url)
    pd.testing.assert_frame_equal(votes, outfox.votes("sentiment", 1, path=archives))
    assert spoiler.asked == [*ONCE, "votes.parquet", "votes.parquet"]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("fate", [with_another_byte, as_no_gzip])
def test_a_file_that_comes_spoiled_twice_is_not_asked_for_again(
    cache: Path, spoiler: SpoilingServer, fate: Fate, verify: bool
) -> None:
    spoiler.fates = [fate]
    with pytest.raises(outfox.OutfoxError, match="did not arrive as it is there") as error:
        outfox.votes("sentiment", 1, url=spoiler.url, verify=verify)
    assert "\n" not in str(error.value)
    assert spoiler.asked == [*ONCE, "votes.parquet", "votes.parquet"]
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_a_file_that_the_server_knows_to_be_spoiled_is_not_asked_for_again(served: Served) -> None:
    file = served.path / "sentiment" / "round-1" / "votes.parquet"
    whole = file.read_bytes()
    file.write_bytes(with_another_byte(whole)[0])
    try:
        told = pytest.raises(outfox.OutfoxError, match="answers 503: this file is not what was frozen")
        with cutting_proxy(served.web.url) as proxy, told:
            outfox.votes("sentiment", 1, url=proxy.url, token=served.token)
        status, headers, body = served.ask("/data/sentiment/rounds/1/votes.parquet")
    finally:
        file.write_bytes(whole)
    assert [name for name, _ in proxy.asked] == [*ONCE, "votes.parquet"]
    assert (status, json.loads(body)["retry"], "Retry-After" in headers) == (503, False, False)


def test_a_manifest_of_another_round_is_not_believed(spoiler: SpoilingServer) -> None:
    spoiler.listing = spoiler.listing.replace(b'"round": 1', b'"round": 7')
    with pytest.raises(outfox.OutfoxError, match=r"rounds/7/manifest\.json is of another round"):
        outfox.load("sentiment", 7, url=spoiler.url)


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        (b'{"rounds": [{"round": Infinity}]}', "is not what `outfox serve` answers"),
        pytest.param(b"[" * 200_000, "is not what `outfox serve` answers", id="too deep"),
        (b'{"rounds": [{"round": 1, "problem": "gone\\nfor \\u001b[31mgood"}]}', r"gone for \[31mgood$"),
    ],
)
def test_whatever_a_stranger_answers_is_told_in_one_line(spoiler: SpoilingServer, listing: bytes, told: str) -> None:
    spoiler.listing = listing
    with pytest.raises(outfox.OutfoxError, match=told) as error:
        outfox.load("sentiment", url=spoiler.url)
    assert "\n" not in str(error.value)
