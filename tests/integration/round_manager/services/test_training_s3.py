"""The next version where models are served from a bucket: trained here, published there, and pinned there."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ml_backend.registry.registry import open_registry
from round_manager.services.model_versions import register_versions
from tests.campaign.training import TASK, TrainingCampaign, first_round_rows
from tests.fakes.registry import make_version
from tests.fakes.s3 import BUCKET, S3Server


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    server = S3Server()
    server.empty()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.mark.usefixtures("s3_server")
def test_a_version_is_published_to_s3_evaluated_from_there_and_pinned(
    any_training: TrainingCampaign, tmp_path: Path
) -> None:
    training, where = any_training, f"s3://{BUCKET}/team"
    registry = open_registry(where, tmp_path / "cache")
    base = make_version(training.models, "positive", note="base")
    registry.publish(training.models / TASK / base)
    registry.set_pins(TASK, [base])
    training.registry.set_pins(TASK, [base])
    register_versions(training.services, training.ports(registry=registry, location=where).models, TASK, [base])
    training.add_closed_round(first_round_rows())
    # Only the bucket has it now: the new version is compared with the one served from there.
    shutil.rmtree(training.models / TASK / base)
    done = training.retrain(registry=registry, location=where)
    assert (done.rotated, done.before) == (True, (base,))
    pins = open_registry(where, tmp_path / "another").pins(TASK)
    assert pins is not None
    assert pins.versions == (done.version,)
