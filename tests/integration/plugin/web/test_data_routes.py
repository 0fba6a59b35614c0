"""The routes of `/data` with many readers, with archives in S3, and with missing archives."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from plugin.web.data_files import DataFiles
from plugin.web.data_routes import data_blueprint
from plugin.web.middleware import WebMetrics, add_request_logging
from round_manager.archive.csv_cache import CsvCache
from round_manager.archive.storage import open_archives
from round_manager.database.store import LazyStore, open_store
from round_manager.evaluation.records import keep_record
from round_manager.services.archives import verify_archive
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import set_public
from tests.campaign import start_closed
from tests.fakes.clock import SettableClock
from tests.fakes.s3 import BUCKET, S3Server
from tests.integration.databases import Databases

FILE = "/data/sentiment/rounds/1/examples.parquet"


@dataclass(frozen=True)
class Site:
    """A public task with a closed round, in a separate store."""

    url: str
    folder: Path

    def frozen_at(self, place: str) -> "Site":
        with open_store(self.url) as store:
            start_closed(store).freeze(open_archives(place))
            set_public(ServiceContext(store, SettableClock()), Actor("ada"), "sentiment", public=True)
        return self

    def files(self) -> DataFiles:
        return DataFiles(LazyStore(self.url), CsvCache(self.folder / "csv"), SettableClock(), at_once=1)

    def client(self, files: DataFiles | None = None) -> FlaskClient:
        app = Flask("data")
        add_request_logging(app, WebMetrics())
        app.register_blueprint(data_blueprint(files or self.files()))
        return app.test_client()


@pytest.fixture
def site(any_databases: Databases, tmp_path: Path) -> Site:
    return Site(any_databases.migrated(), tmp_path)


def listed(client: FlaskClient) -> dict[str, Any]:
    """Return the listing's entry for the only round."""
    (round,) = json.loads(client.get("/data/sentiment").text)["rounds"]
    return dict(round)


def test_an_archive_in_a_bucket_is_served_like_one_in_a_folder(site: Site, bucket: str, s3_server: S3Server) -> None:
    client, key = site.frozen_at(bucket).client(), "archives/sentiment/round-1/examples.parquet"
    stored = s3_server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with client.get(FILE) as whole:
        assert (whole.status_code, whole.data, whole.content_length) == (200, stored, len(stored))
    with client.get(FILE, headers={"Range": "bytes=10-99"}) as part:
        assert (part.status_code, part.data) == (206, stored[10:100])
    with client.get(FILE, headers={"If-None-Match": f'"{whole.get_etag()[0]}"'}) as known:
        assert known.status_code == 304
    with client.get(FILE.replace("parquet", "csv")) as table:
        assert (table.status_code, table.data.count(b'"pages"')) == (200, 40)
    assert len(listed(client)["files"]) == 15
    # A file that changed since the freeze is not sent.
    s3_server.client.put_object(Bucket=BUCKET, Key=key, Body=b"something else")
    with client.get(FILE) as changed:
        assert changed.status_code == 503


def test_readers_beyond_the_limit_must_retry_and_no_slot_is_lost(site: Site) -> None:
    files = site.frozen_at(str(site.folder / "archives")).files()
    client = site.client(files)
    first = client.get(FILE)
    assert first.headers["Cache-Control"] == "public, no-cache"
    release = files.take_slot()
    second = client.get(FILE)
    assert (second.status_code, second.headers["Retry-After"]) == (503, "2")
    assert json.loads(second.text)["retry"] is True
    assert json.loads(second.text)["code"] == "data_busy"
    release()
    first.close()
    for path, status in ((FILE, 200), (f"{FILE}x", 404), ("/data/sentiment", 200), ("/data/nli", 401)) * 2:
        answer = client.get(path)
        assert answer.status_code == status
        answer.close()


def test_a_missing_archive_is_reported_without_its_location(site: Site) -> None:
    client = site.frozen_at(str(site.folder / "archives")).client()
    folder = site.folder / "archives" / "sentiment" / "round-1"
    (folder / "examples.parquet").write_bytes(b"short")
    with client.get(FILE) as spoiled:
        assert spoiled.status_code == 503
    shutil.rmtree(folder)
    fresh = site.client()
    with fresh.get(FILE) as gone:
        assert (gone.status_code, str(site.folder).encode() in gone.data) == (503, False)
    about = listed(fresh)
    assert (about["files"], bool(about["problem"])) == ({}, True)


def spoil(file: Path) -> None:
    """Change a byte in the middle; the size stays."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["examples.parquet", "examples.jsonl", "examples.csv"])
def test_a_file_changed_after_the_freeze_is_not_served(site: Site, name: str) -> None:
    client = site.frozen_at(str(site.folder / "archives")).client()
    path, folder = f"/data/sentiment/rounds/1/{name}", site.folder / "archives" / "sentiment" / "round-1"
    file = folder / name.replace(".csv", ".parquet")
    whole = file.read_bytes()
    spoil(file)
    for headers in ({}, {"Range": "bytes=0-9"}, {"If-None-Match": "*"}):
        with client.get(path, headers=headers) as spoiled:
            assert (spoiled.status_code, "ETag" in spoiled.headers) == (503, False)
            error = json.loads(spoiled.data)
            assert (error["code"], error["retry"], "Retry-After" in spoiled.headers) == (
                "archive_file_changed",
                False,
                False,
            )
    # A restored file is served again without a restart.
    file.write_bytes(whole)
    with client.get(path) as restored:
        assert restored.status_code == 200


def test_a_file_that_is_changed_while_it_is_served_is_noticed(site: Site) -> None:
    client = site.frozen_at(str(site.folder / "archives")).client()
    with client.get(FILE) as whole:
        assert whole.status_code == 200
    spoil(site.folder / "archives" / "sentiment" / "round-1" / "examples.parquet")
    with client.get(FILE) as changed:
        assert changed.status_code == 503


def test_csv_is_not_created_from_a_changed_file_in_a_bucket(site: Site, bucket: str, s3_server: S3Server) -> None:
    client, key = site.frozen_at(bucket).client(), "archives/sentiment/round-1/votes.parquet"
    found = s3_server.client.get_object(Bucket=BUCKET, Key=key)
    other = s3_server.client.get_object(Bucket=BUCKET, Key=key.replace("votes", "contexts"))["Body"].read()
    s3_server.client.put_object(Bucket=BUCKET, Key=key, Body=other, Metadata=found["Metadata"])
    with client.get("/data/sentiment/rounds/1/votes.csv") as changed:
        assert (changed.status_code, json.loads(changed.data)["code"]) == (503, "archive_file_changed")


ROW = {"model": "mine", "model_id": "hf-1", "data": "round 1", "slice": "", "axis": "performance", "metric": "accuracy",
       "n": 5, "value": 80.0}  # fmt: skip
EVALUATIONS = "/data/sentiment/rounds/1/evaluations.json"


def test_evaluations_are_served_and_change_while_the_archive_stays(site: Site, tmp_path: Path) -> None:
    client = site.frozen_at(str(tmp_path / "archives")).client()
    archive = tmp_path / "archives" / "sentiment" / "round-1"
    assert "evaluations" not in listed(client)
    assert client.get(EVALUATIONS).status_code == 404
    assert keep_record(str(archive), [ROW])
    told = listed(client)["evaluations"]
    with client.get(EVALUATIONS) as sent:
        assert (sent.status_code, sent.data) == (200, (archive / "evaluations.json").read_bytes())
        assert sent.get_etag()[0] == told["sha256"]
    assert keep_record(str(archive), [{**ROW, "value": 90.0}])
    with client.get(EVALUATIONS, headers={"If-None-Match": f'"{told["sha256"]}"'}) as changed:
        assert changed.status_code == 200
        assert json.loads(changed.data)["results"][0]["value"] == 90.0


def test_evaluations_in_a_bucket_are_served_and_verified(site: Site, bucket: str) -> None:
    client, archive = site.frozen_at(bucket).client(), f"{bucket}/sentiment/round-1"
    assert keep_record(archive, [ROW])
    with client.get(EVALUATIONS) as sent:
        assert (sent.status_code, json.loads(sent.data)["results"][0]["value"]) == (200, 80.0)
    found = verify_archive(archive).result
    assert (found.problems, "the record of evaluations" in found.checked) == ((), True)
