"""Frozen rounds over HTTP: files, parts of files, listings and access."""

import hashlib
import json
import socket
from collections.abc import Iterator

import pandas as pd
import pytest

import outfox
from plugin.cli.servers import WEB_THREADS
from tests.integration.databases import Databases
from tests.integration.plugin.web.served import Served, serving_rounds

# In one process of a parallel run, so that the archives are made once.
pytestmark = pytest.mark.xdist_group("data-files")
FILE = "/data/sentiment/rounds/1/examples.parquet"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Iterator[Served]:
    # Workers' texts may look like a formula, or be larger than any buffer.
    odd = {7: "=SUM(A7)", 5: "long " * 3_000_000}
    with serving_rounds(tmp_path_factory.mktemp("served"), any_databases.migrated(), odd) as found:
        yield found


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_the_token_scheme_is_case_insensitive(served: Served, scheme: str) -> None:
    assert served.ask("/data/sentiment", Authorization=f"{scheme} {served.token}")[0] == 200
    assert served.ask("/data/sentiment", Authorization=f"{scheme} {served.token}x")[0] == 401


def test_pandas_reads_every_format_directly(served: Served) -> None:
    address = f"{served.web.url}/data/sentiment/rounds/1/examples"
    expected = outfox.load("sentiment", 1, path=served.path)
    headers = {"Authorization": f"Bearer {served.token}"}
    for frame in (
        pd.read_parquet(f"{address}.parquet?token={served.token}"),
        pd.read_parquet(f"{address}.parquet", storage_options=headers),
    ):
        pd.testing.assert_frame_equal(frame, expected, check_flags=False, check_dtype=False)
    lines = pd.read_json(f"{address}.jsonl?token={served.token}", lines=True, dtype=False)
    table = pd.read_csv(f"{address}.csv?token={served.token}")
    for frame in (lines, table):
        assert list(frame.columns) == list(expected.columns)
        assert frame["id"].tolist() == expected["id"].tolist()
    assert lines["text"].tolist() == expected["text"].tolist()
    assert (expected["text"][7], table["text"][7], table["text"][8]) == ("=SUM(A7)", "'=SUM(A7)", expected["text"][8])
    assert json.loads(table["votes"][3]) == lines["votes"][3]


@pytest.mark.parametrize("name", ["examples.parquet", "votes.jsonl", "manifest.json"])
def test_a_file_is_the_archives_own_with_its_hash_as_etag(served: Served, name: str) -> None:
    path, content = f"/data/sentiment/rounds/1/{name}", served.file(name)
    status, headers, body = served.ask(path)
    etag = f'"{hashlib.sha256(content).hexdigest()}"'
    assert (status, body, headers["ETag"], headers["Accept-Ranges"]) == (200, content, etag, "bytes")
    assert (headers["Content-Length"], headers["Cache-Control"]) == (str(len(content)), "private, no-cache")
    status, headers, body = served.ask(path, "HEAD")
    assert (status, body, headers["Content-Length"], headers["ETag"]) == (200, b"", str(len(content)), etag)
    for known in (etag, f'"other", W/{etag}', "*"):
        assert served.ask(path, If_None_Match=known)[::2] == (304, b"")
    assert served.ask(path, If_None_Match='"other"')[0] == 200


def test_parts_of_a_file_are_sent(served: Served) -> None:
    content = served.file("examples.parquet")
    size = len(content)
    for asked, part in (("0-99", content[:100]), ("100-", content[100:]), ("-8", content[-8:])):
        status, headers, body = served.ask(FILE, Range=f"bytes={asked}")
        assert (status, body, headers["Content-Length"]) == (206, part, str(len(part)))
        assert headers["Content-Range"].endswith(f"/{size}")
    status, headers, _ = served.ask(FILE, Range=f"bytes={size}-")
    assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")
    assert served.ask(FILE, Range="bytes=0-9", If_Range='"other"')[::2] == (200, content)
    assert served.ask(FILE, Range="bytes=0-9,20-29")[::2] == (200, content)


def test_csv_is_created_once_and_supports_etags_and_ranges(served: Served) -> None:
    path = "/data/sentiment/rounds/2/votes.csv"
    _, headers, content = served.ask(path)
    assert headers["ETag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert served.ask(path, Range="bytes=5-24")[::2] == (206, content[5:25])
    assert served.ask(path, If_None_Match=headers["ETag"])[0] == 304


def test_available_data_can_be_listed(served: Served) -> None:
    status, headers, body = served.ask("/data/sentiment")
    listed = json.loads(body)
    assert (status, [one["round"] for one in listed["rounds"]]) == (200, [1, 2])
    about = listed["rounds"][0]["files"]["examples.parquet"]
    content = served.file("examples.parquet")
    expected = {"url": FILE, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "rows": 40}
    assert about == expected
    assert len(listed["rounds"][0]["files"]) == 15
    assert served.ask("/data/sentiment", If_None_Match=headers["ETag"])[0] == 304


def test_unauthorised_readers_learn_nothing(served: Served) -> None:
    answers = set()
    for path in ("/data/sentiment", FILE, "/data/nobody", "/data/nobody/rounds/1/votes.csv", "/data/a%00b"):
        status, body = served.web.get(path)
        answers.add((status, json.loads(body)["error"]))
    assert [status for status, _ in answers] == [401], "every answer is the same"
    assert served.web.get("/data/nli")[0] == 200
    assert served.web.get("/data")[0] == 404
    assert served.token not in served.web.log.read_text(encoding="utf-8")


def test_missing_data_is_reported_to_authorised_readers(served: Served) -> None:
    for path in (
        "/data/sentiment/rounds/9/votes.csv",
        "/data/sentiment/rounds/1/people.csv",
        "/data/sentiment/rounds/1/..%2f..%2foutfox.db",
    ):
        status, _, body = served.ask(path)
        assert (status, json.loads(body)["retry"]) == (404, False)


def test_stalled_readers_delay_nobody(served: Served) -> None:
    path = "/data/sentiment/rounds/1/examples.jsonl"
    stuck = []
    try:
        for _ in range(2 * WEB_THREADS):
            one = socket.create_connection(("127.0.0.1", served.web.port))
            one.sendall(f"GET {path}?token={served.token} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert one.recv(12) == b"HTTP/1.1 200"
            stuck.append(one)
        assert served.ask(path)[::2] == (200, served.file("examples.jsonl"))
        assert served.web.get("/health")[0] == 200
    finally:
        for one in stuck:
            one.close()
