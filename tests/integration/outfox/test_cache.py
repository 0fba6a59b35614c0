"""The cache of downloaded files: each file is downloaded once, is stored complete, and can be lost at any time."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
from tests.integration.plugin.web.served import Served

# Runs a command in a mount namespace in which the folder is read-only.
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
# The program prints the code of the error that it ends with.
LOAD = """
import resource, signal, sys, outfox
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    print(len(outfox.load('sentiment', 1, url=sys.argv[1], token=sys.argv[2])))
except outfox.OutfoxError as error:
    print(error.code)
"""

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def server(served: Served) -> dict[str, Any]:
    return {"url": served.web.url, "token": served.token}


def read_only(folder: Path, *command: str) -> str:
    """Run a command for which the folder is read-only; return its output."""
    enter = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*enter, READ_ONLY, "sh", str(folder), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("NOT PROVED: this system does not allow mount namespaces, so a read-only cache was not tested")
    command = (*enter, READ_ONLY, "sh", str(folder), *command)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_file_is_downloaded_once(served: Served, server: dict[str, Any], cache: Path) -> None:
    outfox.load("sentiment", 1, **server)
    before = served.sent()
    outfox.load("sentiment", 1, verify=True, **server)
    assert (served.sent(), before > 0) == (before, True)
    names = {hashlib.sha256(served.file(name)).hexdigest() for name in ("manifest.json", "examples.parquet")}
    assert {file.stem for file in cache.iterdir()} == names


def test_the_least_recently_used_files_are_deleted_when_the_cache_is_full(
    served: Served, server: dict[str, Any], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outfox.votes("sentiment", 1, **server)
    (votes,) = cache.glob("*.parquet")
    outfox.contexts("sentiment", 1, **server)
    (contexts,) = set(cache.glob("*.parquet")) - {votes}
    current, abandoned = cache / ".a-current-download", cache / ".an-abandoned-download"
    for path in (current, abandoned):
        path.touch()
    os.utime(abandoned, (0, 0))
    for file in cache.glob("[!.]*"):
        os.utime(file, (1, 1))
    monkeypatch.setattr(outfox, "CACHE_BYTES", 1)
    # A file that was used a moment ago stays although the cache is full: another process may be about to read it.
    outfox.votes("sentiment", 1, **server)
    outfox.models("sentiment", 1, **server)
    assert (votes.exists(), contexts.exists(), current.exists(), abandoned.exists()) == (True, False, True, False)
    pd.testing.assert_frame_equal(
        outfox.contexts("sentiment", 1, **server), outfox.contexts("sentiment", 1, path=served.path)
    )


def test_a_corrupt_copy_is_downloaded_again_with_verify(served: Served, server: dict[str, Any], cache: Path) -> None:
    outfox.votes("sentiment", 1, **server)
    (copy,) = cache.glob("*.parquet")
    copy.write_bytes(bytes(copy.stat().st_size))
    with pytest.raises(outfox.DataCorrupt, match="verify=True"):
        outfox.votes("sentiment", 1, **server)
    votes = outfox.votes("sentiment", 1, verify=True, **server)
    pd.testing.assert_frame_equal(votes, outfox.votes("sentiment", 1, path=served.path))


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more"])
def test_a_truncated_copy_is_always_downloaded_again(
    served: Served, server: dict[str, Any], cache: Path, content: bytes
) -> None:
    outfox.votes("sentiment", 1, **server)
    for copy in cache.iterdir():
        copy.write_bytes(content)
    votes = outfox.votes("sentiment", 1, **server)
    pd.testing.assert_frame_equal(votes, outfox.votes("sentiment", 1, path=served.path))
    assert all(hashlib.sha256(copy.read_bytes()).hexdigest() == copy.stem for copy in cache.iterdir())


def test_a_read_only_cache_serves_the_files_it_has(served: Served, server: dict[str, Any], cache: Path) -> None:
    outfox.load("sentiment", 1, **server)
    rows = len(outfox.load("sentiment", 1, path=served.path))
    assert read_only(cache.parent, sys.executable, "-c", LOAD, served.web.url, served.token) == f"{rows}\n"


def test_an_empty_read_only_cache_is_an_error(served: Served, cache: Path) -> None:
    cache.mkdir()
    output = read_only(cache.parent, sys.executable, "-c", LOAD, served.web.url, served.token)
    assert output == "cache_unusable\n"


@pytest.mark.parametrize("place", ["/dev/null", "/proc", "~unknown-user"])
def test_a_folder_that_cannot_be_a_cache_is_an_error(
    server: dict[str, Any], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    with pytest.raises(outfox.CacheUnusable, match="XDG_CACHE_HOME"):
        outfox.load("sentiment", 1, **server)


def test_a_full_disk_leaves_no_unfinished_file(served: Served, cache: Path) -> None:
    # The process may not write files that are as large as the table.
    command = [sys.executable, "-c", LOAD, served.web.url, served.token, "9000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "cache_unusable\n"
    assert [file for file in cache.iterdir() if file.name.startswith(".")] == []
