import os
from pathlib import Path

from ml_backend.serving.outbox import Outbox, read_attempts, waiting_files
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from tests.campaign.base import built_in_pack
from tests.fakes import calls
from tests.fakes.clock import SettableClock
from tests.fakes.model_provider import FakeModelProvider


def test_a_full_disk_is_down_and_loses_no_attempt(small_disk: Path) -> None:
    pack, outbox = built_in_pack("sentiment"), Outbox(small_disk / "tries")
    service = VerdictService({"sentiment": pack}, FakeModelProvider(pack), outbox, SettableClock())
    client = backend_app(service).test_client()

    def attempt() -> int:
        body = calls.predict(pack, calls.writes(pack, "A text."))
        return client.post("/tasks/sentiment/predict", json=body).status_code

    assert (attempt(), client.get("/health").status_code) == (200, 200)
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (disk.f_bavail * disk.f_frsize))
    outbox.seal()
    # Verdicts go on; the attempt waits in memory.
    assert attempt() == 200
    answer = client.get("/health")
    assert (answer.status_code, answer.get_json()["status"], answer.get_json()["code"]) == (
        503,
        "DOWN",
        "disk_unusable",
    )
    (small_disk / "filler").unlink()
    outbox.seal()
    assert client.get("/health").status_code == 200
    assert sum(len(read_attempts(path)[0]) for path in waiting_files(small_disk / "tries")) == 2
