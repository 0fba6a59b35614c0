"""An S3 server on loopback: moto's, with serialised writes, as conditional writes need them."""

import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

BUCKET = "models"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}


class S3Server:
    """Starts empty; can be stopped and started again, and keeps its objects."""

    def __init__(self, *, one_at_a_time: bool = True) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # moto asks for packages of other services
            from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        every = DomainDispatcherApplication(create_backend_app)
        # Do not hold the lock while waiting for a message: the sender would wait for it.
        self._app = _OneAtATime(every) if one_at_a_time else every
        self._server: BaseWSGIServer | None = None
        self.port = 0
        self.start()
        self.client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that makes boto3 use it."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": self.url}

    def start(self) -> None:
        """Start it."""
        self._server = make_server("127.0.0.1", self.port, self._app, threaded=True, request_handler=_Quiet)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Stop it."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def empty(self) -> None:
        """Remove everything but an empty bucket."""
        for bucket in self.client.list_buckets()["Buckets"]:
            for one in self.client.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
                self.client.delete_object(Bucket=bucket["Name"], Key=one["Key"])
        self.client.create_bucket(Bucket=BUCKET)


class _OneAtATime:
    """moto compares and writes in two steps; real S3 does it in one."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return list(self._app(environ, start_response))


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments: Any) -> None:
        pass
