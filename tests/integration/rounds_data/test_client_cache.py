"""What `import outfox` keeps of files that a server sent: sent once, whole, and never in the way."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
from tests.integration.databases import Databases
from tests.integration.rounds_data.served import Served, empty_cache, serving_rounds

# In a name space of its own, where the folder is mounted once more and may only be read.
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Iterator[Served]:
    with serving_rounds(tmp_path_factory.mktemp("served"), any_databases.migrated(), {}) as found:
        yield found


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no long waits."""
    return empty_cache(tmp_path, monkeypatch)


def read_only(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command for which the folder may only be read."""
    enter = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*enter, READ_ONLY, "sh", str(folder), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("NOT PROVED: this system mounts nothing for us, so a read-only cache could not be tried")
    return subprocess.run([*enter, READ_ONLY, "sh", str(folder), *command], capture_output=True, text=True, check=False)


def test_what_was_loaded_once_is_not_sent_again(served: Served, cache: Path) -> None:
    outfox.load("sentiment", 1, url=served.web.url, token=served.token)
    before = served.sent()
    outfox.load("sentiment", 1, url=served.web.url, token=served.token, verify=True)
    assert (served.sent(), before > 0) == (before, True)
    names = {hashlib.sha256(served.file(name)).hexdigest() for name in ("manifest.json", "examples.parquet")}
    assert {file.stem for file in cache.iterdir()} == names


def test_what_was_used_longest_ago_makes_room_for_what_is_loaded(
    served: Served, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: dict[str, Any] = {"url": served.web.url, "token": served.token}
    outfox.votes("sentiment", 1, **at)
    (votes,) = cache.glob("*.parquet")
    outfox.contexts("sentiment", 1, **at)
    (contexts,) = set(cache.glob("*.parquet")) - {votes}
    left, dead = cache / ".another-process-writes", cache / ".a-process-died"
    for path in (left, dead):
        path.touch()
    os.utime(dead, (0, 0))
    for file in cache.glob("[!.]*"):
        os.utime(file, (1, 1))
    monkeypatch.setattr(outfox, "CACHE_BYTES", 1)
    # What was asked for a moment ago stays, though it is too much: somebody may be about to read it.
    outfox.votes("sentiment", 1, **at)
    outfox.models("sentiment", 1, **at)
    assert (votes.exists(), contexts.exists(), left.exists(), dead.exists()) == (True, False, True, False)
    pd.testing.assert_frame_equal(
        outfox.contexts("sentiment", 1, **at), outfox.contexts("sentiment", 1, path=served.path)
    )


def test_a_spoiled_copy_is_noticed_and_fetched_again(served: Served, cache: Path) -> None:
    outfox.votes("sentiment", 1, url=served.web.url, token=served.token)
    (copy,) = cache.glob("*.parquet")
    copy.write_bytes(b"spoiled")
    votes = outfox.votes("sentiment", 1, url=served.web.url, token=served.token, verify=True)
    pd.testing.assert_frame_equal(votes, outfox.votes("sentiment", 1, path=served.path))


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more"])
def test_half_a_copy_is_fetched_again_without_being_asked(served: Served, cache: Path, content: bytes) -> None:
    at: dict[str, Any] = {"url": served.web.url, "token": served.token}
    outfox.votes("sentiment", 1, **at)
    for copy in cache.iterdir():
        copy.write_bytes(content)
    pd.testing.assert_frame_equal(outfox.votes("sentiment", 1, **at), outfox.votes("sentiment", 1, path=served.path))
    assert all(hashlib.sha256(copy.read_bytes()).hexdigest() == copy.stem for copy in cache.iterdir())


def test_a_copy_of_the_right_size_that_cannot_be_read_is_told_with_its_cure(served: Served, cache: Path) -> None:
    at: dict[str, Any] = {"url": served.web.url, "token": served.token}
    outfox.votes("sentiment", 1, **at)
    (copy,) = cache.glob("*.parquet")
    copy.write_bytes(bytes(copy.stat().st_size))
    with pytest.raises(outfox.OutfoxError, match="load it with verify=True"):
        outfox.votes("sentiment", 1, **at)
    assert len(outfox.votes("sentiment", 1, verify=True, **at)) > 0


def test_a_filled_cache_that_may_only_be_read_is_enough(served: Served, cache: Path) -> None:
    outfox.votes("sentiment", 1, url=served.web.url, token=served.token)
    load = "import sys, outfox; print(len(outfox.votes('sentiment', 1, url=sys.argv[1], token=sys.argv[2])))"
    done = read_only(cache.parent, sys.executable, "-c", load, served.web.url, served.token)
    assert (done.stderr, done.stdout) == ("", f"{len(outfox.votes('sentiment', 1, path=served.path))}\n")


def test_an_empty_cache_that_may_only_be_read_is_told_in_one_line(served: Served, cache: Path) -> None:
    cache.mkdir()
    load = "import sys, outfox; outfox.votes('sentiment', 1, url=sys.argv[1], token=sys.argv[2])"
    done = read_only(cache.parent, sys.executable, "-c", load, served.web.url, served.token)
    told = done.stderr.rstrip().rpartition("\n")[2]
    assert told.startswith("outfox.OutfoxError: cannot keep ")
    assert told.endswith("Read-only file system; free the disk, or set XDG_CACHE_HOME to a folder that can be written")


@pytest.mark.parametrize("place", ["/dev/null", "/proc", "~nobody-has-this-name"])
def test_a_place_that_can_be_no_cache_is_told_with_its_cure(
    served: Served, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    with pytest.raises(outfox.OutfoxError, match="set XDG_CACHE_HOME"):
        outfox.load("sentiment", 1, url=served.web.url, token=served.token)


def test_a_full_disk_leaves_no_draft(served: Served, cache: Path) -> None:
    # The largest file that this process may write is smaller than the table.
    load = (
        "import resource, signal, sys, outfox; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000)); "
        "outfox.load('sentiment', 1, url=sys.argv[1], token=sys.argv[2])"
    )
    command = [sys.executable, "-c", load, served.web.url, served.token]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "outfox.OutfoxError: cannot keep " in done.stderr
    assert [file for file in cache.iterdir() if file.name.startswith(".")] == []
