"""An S3 bucket: the only module that uses boto3 here; it translates boto3's errors into RegistryErrors."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from ml_backend.errors import RegistryCorrupt, RegistryMisconfigured, RegistryUnreachable

# A small request must not block for long: two short attempts, at most 10 seconds in total.
SMALL_REQUESTS = Config(connect_timeout=2, read_timeout=3, retries={"mode": "standard", "max_attempts": 2})
TRANSFERS = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "max_attempts": 4})
PIECE = 1 << 20
SMALL_PIECE = 1 << 16
NOT_FOUND = ("NoSuchKey", "404", "NotFound")
FAILED_CONDITION = (409, 412)


class PreconditionFailed(Exception):
    """The object changed, or was created, after the writer read it."""


@dataclass(frozen=True)
class ListedObject:
    """An object in a listing: its key, its age in seconds by the bucket's clock, its size and its ETag."""

    key: str
    age: float
    size: int
    etag: str


class Bucket:
    """Objects below one prefix of one bucket."""

    def __init__(self, client: Any, transfers: Any, name: str, prefix: str) -> None:
        self._client = client
        self._transfers = transfers
        self._name = name
        self._prefix = prefix

    @classmethod
    def open(cls, url: str) -> Self:
        """Open s3://bucket/prefix with the credentials and the endpoint that boto3 finds."""
        name, _, prefix = url.removeprefix("s3://").partition("/")
        if not name:
            raise RegistryMisconfigured(f"{url} does not name a bucket; use s3://bucket/prefix")
        with _translate_errors(url):
            session = boto3.session.Session()
            client, transfers = session.client("s3", config=SMALL_REQUESTS), session.client("s3", config=TRANSFERS)
        return cls(client, transfers, name, f"{prefix.strip('/')}/" if prefix.strip("/") else "")

    def where(self, key: str) -> str:
        """Return the object's address for messages."""
        return f"s3://{self._name}/{self._prefix}{key}"

    def read(self, key: str, most_bytes: int) -> tuple[bytes, str] | None:
        """Return the object's content and ETag, or None."""
        with _translate_errors(self.where(key)):
            found = self._get(self._client.get_object, key)
            if found is None:
                return None
            content: bytes = found["Body"].read(most_bytes + 1)
        return content, str(found["ETag"])

    def etag(self, key: str) -> str:
        """Return the object's ETag, or an empty string."""
        with _translate_errors(self.where(key)):
            found = self._get(self._client.head_object, key)
        return str(found["ETag"]) if found else ""

    def sha256(self, key: str) -> str:
        """Return the hash that the object was stored with, or an empty string."""
        with _translate_errors(self.where(key)):
            found = self._get(self._client.head_object, key)
        return str(found["Metadata"].get("sha256", "")) if found else ""

    def write(self, key: str, content: bytes, *, replaces: str | None = None) -> None:
        """Store the object; with `replaces`, raise PreconditionFailed unless its ETag is that (empty: it is new)."""
        conditions = {} if replaces is None else {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
        try:
            with _translate_errors(self.where(key)):
                self._put(key, content, conditions)
        except ClientError as error:
            raise PreconditionFailed(key) from error

    def upload(self, key: str, path: Path, sha256: str) -> None:
        """Upload a file; the bucket verifies its hash."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        try:
            with _translate_errors(self.where(key)), path.open("rb") as file:
                self._put(key, file, {"ChecksumSHA256": checksum, "Metadata": {"sha256": sha256}}, self._transfers)
        except OSError as error:
            raise RegistryCorrupt(f"cannot read {path}: {error.strerror}; restore the folder") from error

    def download(self, key: str, path: Path, size: int) -> None:
        """Download the object into a file, at most one byte more than its expected size."""
        with _translate_errors(self.where(key)), path.open("xb") as file:
            found = self._get(self._transfers.get_object, key)
            if found is None:
                raise RegistryCorrupt(f"{self.where(key)} is missing; publish the version again")
            left = size + 1
            while left and (piece := found["Body"].read(min(PIECE, left))):
                file.write(piece)
                left -= len(piece)

    def pieces(self, key: str, start: int, stop: int, sha256: str) -> Iterator[bytes]:
        """Yield the object's bytes from `start` up to `stop`; it must have been stored with this hash."""
        if start >= stop:
            return iter(())
        with _translate_errors(self.where(key)):
            found = self._get(self._transfers.get_object, key, Range=f"bytes={start}-{stop - 1}")
        if found is None:
            raise RegistryCorrupt(f"{self.where(key)} is missing; restore it")
        if found["Metadata"].get("sha256") != sha256:
            raise RegistryCorrupt(f"{self.where(key)} has changed; restore it")
        return self._read(key, found["Body"])

    def below(self, prefix: str) -> list[ListedObject]:
        """List the objects below a prefix, all pages."""
        found = []
        with _translate_errors(self.where(prefix)):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._name, Prefix=f"{self._prefix}{prefix}"
            )
            for page in pages:
                now = _server_time(page["ResponseMetadata"])
                for one in page.get("Contents", ()):
                    written: datetime = one["LastModified"]
                    age = (now - written).total_seconds()
                    found.append(ListedObject(one["Key"][len(self._prefix) :], age, one["Size"], one["ETag"]))
        return found

    def folders(self) -> list[str]:
        """List the top-level folders."""
        with _translate_errors(self.where("")):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._name, Prefix=self._prefix, Delimiter="/"
            )
            return [one["Prefix"][len(self._prefix) : -1] for page in pages for one in page.get("CommonPrefixes", ())]

    def remove(self, key: str) -> None:
        """Remove the object."""
        with _translate_errors(self.where(key)):
            self._client.delete_object(Bucket=self._name, Key=f"{self._prefix}{key}")

    def _put(self, key: str, body: Any, options: Mapping[str, Any], client: Any = None) -> None:
        (client or self._client).put_object(Bucket=self._name, Key=f"{self._prefix}{key}", Body=body, **options)

    def _read(self, key: str, body: Any) -> Iterator[bytes]:
        with _translate_errors(self.where(key)), closing(body):
            while piece := body.read(SMALL_PIECE):
                yield piece

    def _get(self, request: Any, key: str, **more: str) -> Any:
        try:
            return request(Bucket=self._name, Key=f"{self._prefix}{key}", **more)
        except ClientError as error:
            if error.response["Error"]["Code"] in NOT_FOUND:
                return None
            raise


def _server_time(answer: Mapping[str, Any]) -> datetime:
    """Return the time by the bucket's clock: this machine's may be wrong."""
    date = answer["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date) if date else datetime.now(UTC)


@contextmanager
def _translate_errors(where: str) -> Iterator[None]:
    """Translate boto3's errors; only a failed precondition passes unchanged."""
    try:
        yield
    except ClientError as error:
        code, status = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status in FAILED_CONDITION:
            raise
        if status >= 500 or status == 429 or code in ("RequestTimeout", "SlowDown"):
            raise RegistryUnreachable(f"{where} does not answer ({code}); try again") from error
        text = f"{where} cannot be used ({code}, HTTP {status})"
        raise RegistryMisconfigured(f"{text}; check the bucket's name and the credentials") from error
    except NoCredentialsError as error:
        raise RegistryMisconfigured(
            f"{where} needs credentials; set those that boto3 reads, such as AWS_PROFILE"
        ) from error
    except BotoCoreError as error:
        raise RegistryUnreachable(f"{where} does not answer ({error}); check the network and try again") from error
