"""Archives in S3: the manifest is uploaded last and makes them visible, and they are verified from there."""

from pathlib import Path

import pytest

from round_manager.archive.files import FILE
from round_manager.archive.storage import open_archives, opened_archive
from round_manager.archive.verification import verify
from round_manager.database.store import Store
from round_manager.errors import ArchiveConflict, ArchiveError, ArchiveNotFound, ArchiveUnreachable
from tests.campaign import Campaign, start_closed
from tests.fakes.s3 import BUCKET, S3Server

PREFIX = "archives/sentiment/round-1/"


@pytest.fixture
def own_round(any_store: Store) -> Campaign:
    """A closed round: what S3 does is the same for every database."""
    return start_closed(any_store)


def keys(server: S3Server) -> list[str]:
    found = server.client.list_objects_v2(Bucket=BUCKET, Prefix=PREFIX).get("Contents", ())
    return sorted(one["Key"].removeprefix(PREFIX) for one in found)


def test_an_archive_in_a_bucket_equals_the_one_in_a_folder(
    own_round: Campaign, bucket: str, s3_server: S3Server, tmp_path: Path
) -> None:
    there = own_round.freeze(open_archives(bucket))
    here = own_round.freeze(open_archives(str(tmp_path)))
    assert (there.where, there.sha256) == (f"{bucket}/sentiment/round-1", here.sha256)
    folder = Path(here.where)
    assert keys(s3_server) == sorted(path.name for path in folder.iterdir())
    for name in keys(s3_server):
        stored = s3_server.client.get_object(Bucket=BUCKET, Key=f"{PREFIX}{name}")["Body"].read()
        assert stored == (folder / name).read_bytes()


def test_an_archive_in_a_bucket_is_verified_and_a_corrupt_object_is_found(
    own_round: Campaign, bucket: str, s3_server: S3Server
) -> None:
    frozen = own_round.freeze(open_archives(bucket))
    with opened_archive(frozen.where) as folder:
        assert verify(folder).problems == ()
    s3_server.client.put_object(Bucket=BUCKET, Key=f"{PREFIX}votes.jsonl", Body=b"spoiled")
    s3_server.client.delete_object(Bucket=BUCKET, Key=f"{PREFIX}models.jsonl")
    with opened_archive(frozen.where) as folder:
        problems = verify(folder).problems
    assert [problem.split()[0] for problem in problems] == ["models.jsonl", "votes.jsonl"]
    own_round.freeze(open_archives(bucket))
    with opened_archive(frozen.where) as folder:
        assert verify(folder).problems == ()


def test_an_interrupted_upload_is_invisible_and_the_next_one_finishes_it(
    own_round: Campaign, bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ml_backend.registry.bucket import Bucket

    upload, sent = Bucket.upload, []

    def breaks_off(self: Bucket, key: str, path: Path, sha256: str) -> None:
        sent.append(key)
        if len(sent) == 4:
            s3_server.stop()
        upload(self, key, path, sha256)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "upload", breaks_off)
        with pytest.raises(ArchiveUnreachable):
            own_round.freeze(open_archives(bucket))
    s3_server.start()
    assert len(keys(s3_server)) == 3
    assert FILE not in keys(s3_server)
    assert own_round.round.frozen_at is None
    with pytest.raises(ArchiveNotFound), opened_archive(f"{bucket}/sentiment/round-1") as at:
        verify(at)
    own_round.freeze(open_archives(bucket))
    assert FILE in keys(s3_server)


def test_another_archive_there_is_never_replaced(own_round: Campaign, bucket: str, s3_server: S3Server) -> None:
    own_round.freeze(open_archives(bucket))
    before = s3_server.client.get_object(Bucket=BUCKET, Key=f"{PREFIX}{FILE}")["Body"].read()
    other = own_round.next_closed_round()
    moved = before.replace(b'"round": 1', b'"round": 2')
    s3_server.client.put_object(Bucket=BUCKET, Key=f"archives/sentiment/round-2/{FILE}", Body=moved)
    with pytest.raises(ArchiveConflict):
        other.freeze(open_archives(bucket))
    assert s3_server.client.get_object(Bucket=BUCKET, Key=f"archives/sentiment/round-2/{FILE}")["Body"].read() == moved


def test_a_missing_bucket_is_reported_in_one_line(own_round: Campaign, bucket: str) -> None:
    with pytest.raises(ArchiveError, match="cannot be used") as told:
        own_round.freeze(open_archives("s3://nobodys-bucket/x"))
    assert "\n" not in str(told.value)
