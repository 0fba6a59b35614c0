"""`outfox model rotate`, `rollback`, `pins`, `verify` and `publish` on the command line."""

import json
from pathlib import Path

import pytest

from ml_backend.registry.heartbeats import FollowedPins, Heartbeat
from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.registry import open_registry
from tests.conftest import Outfox, Ran
from tests.fakes.registry import TASK, QuickRegistry, corrupt, load_fixed, make_version
from tests.fakes.s3 import BUCKET, S3Server

pytestmark = pytest.mark.usefixtures("_fixed_models")


@pytest.fixture
def _fixed_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "home" / "models"


def problems(ran: Ran) -> int:
    """Return how many lines report a problem; there may be progress lines too, but never a traceback."""
    assert "Traceback" not in ran.err
    return sum(line.startswith("outfox: ") for line in ran.err.splitlines())


def test_a_rotation_is_reported_listed_and_rolled_back(outfox: Outfox, models: Path) -> None:
    one, two = make_version(models, "positive"), make_version(models, "negative")
    ran = outfox("model", "rotate", TASK, one, "--json")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert (report["task"], report["round"], report["generation"], report["versions"]) == (TASK, None, 1, [one])
    assert report["servers"] == []

    pool = ModelPool(QuickRegistry(models), load_fixed, [TASK])
    pool.start()
    try:
        ran = outfox("model", "rotate", TASK, two, "--why", "better on round 1", "--json")
        assert len(json.loads(ran.out)["servers"]) == 1
        assert pool.models_for(TASK).targets[0].version == two
        looked = json.loads(outfox("model", "pins", "--json").out)
        assert [(pin["versions"], pin["why"]) for pin in looked["pins"]] == [([two], "better on round 1")]
        assert looked["pins"][0]["who"]
        assert [server["follows"] for server in looked["servers"]] == [True]
        assert two in outfox("model", "pins", TASK).out
        assert json.loads(outfox("model", "rollback", TASK, "--json").out)["versions"] == [one]
        assert pool.models_for(TASK).targets[0].version == one
    finally:
        pool.stop()


def test_a_round_gets_several_versions_of_its_own(outfox: Outfox, models: Path) -> None:
    one, two = make_version(models, "positive"), make_version(models, "negative")
    outfox("model", "rotate", TASK, one)
    report = json.loads(outfox("model", "rotate", TASK, one, two, "--round", "2", "--json").out)
    assert (report["round"], report["versions"]) == (2, [one, two])
    pinned = json.loads(outfox("model", "pins", "--json").out)["pins"]
    assert [(pin["round"], pin["versions"]) for pin in pinned] == [(None, [one]), (2, [one, two])]


@pytest.mark.parametrize(
    ("arguments", "code", "action"),
    [
        (("rotate", TASK, "m000000000000"), "version_not_found", "list_models"),
        (("rotate", TASK, "../../etc"), "invalid_pins", "list_all_models"),
        (("rotate", "../etc", "m000000000000"), "invalid_pins", None),
        (("rollback", TASK), "no_earlier_pins", "show_pins"),
        (("pins", "--registry", "s3://"), "registry_misconfigured", None),
    ],
)
def test_a_mistake_has_a_code_and_a_hint(
    outfox: Outfox, arguments: tuple[str, ...], code: str, action: str | None
) -> None:
    ran = outfox("model", *arguments, "--json")
    assert ran.code == 2, ran.err
    error = json.loads(ran.err.splitlines()[-1])
    assert error["code"] == code
    assert (error["hint"] or {}).get("action") == action


def test_publishing_an_unknown_version_is_refused(outfox: Outfox) -> None:
    ran = outfox("model", "publish", TASK, "m000000000000", "--to", "elsewhere")
    assert (ran.code, problems(ran)) == (2, 1), ran.err


def test_a_version_that_does_not_load_is_refused(outfox: Outfox, models: Path) -> None:
    good, bad = make_version(models), make_version(models, fault="broken")
    outfox("model", "rotate", TASK, good)
    ran = outfox("model", "rotate", TASK, bad, "--json")
    assert ran.code == 2
    assert "graph has no outputs" in json.loads(ran.err.splitlines()[-1])["error"]
    assert json.loads(outfox("model", "pins", "--json").out)["pins"][0]["versions"] == [good]


def test_an_unconfirmed_rotation_exits_with_code_3(outfox: Outfox, models: Path) -> None:
    version = make_version(models)
    served = {TASK: FollowedPins(generation=0)}
    silent = Heartbeat(id="silent", host="elsewhere", pid=1, started="1", lease=1000, tasks=served)
    open_registry(str(models), models).send_heartbeat(silent)
    ran = outfox("model", "rotate", TASK, version, "--timeout", "0.2")
    assert ran.code == 3
    assert "process 1 on elsewhere" in ran.err
    assert json.loads(outfox("model", "pins", "--json").out)["pins"] == []


def test_verify_names_damaged_versions(outfox: Outfox, models: Path) -> None:
    good, bad, headless = [make_version(models, note=str(number)) for number in range(3)]
    assert outfox("model", "verify").code == 0
    corrupt(models / TASK / bad)
    (models / TASK / headless / "model.json").write_text("{")
    ran = outfox("model", "verify", "--json")
    assert ran.code == 2
    found = {one["version"]: one["error"] for one in json.loads(ran.out)}
    assert found[good] is None
    assert "model.safetensors" in found[bad]
    assert found[headless]
    assert outfox("model", "verify", TASK, good).code == 0
    assert outfox("model", "verify", TASK, bad).code == 2


def test_a_version_is_published_to_a_bucket_verified_and_pinned_there(
    outfox: Outfox, models: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.empty()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    version = make_version(models)
    url = f"s3://{BUCKET}/team"
    assert json.loads(outfox("model", "publish", TASK, version, "--to", url, "--json").out)["version"] == version
    assert outfox("model", "verify", "--registry", url).code == 0
    assert outfox("model", "rotate", TASK, version, "--registry", url).code == 0
    assert json.loads(outfox("model", "pins", "--registry", url, "--json").out)["pins"][0]["versions"] == [version]
    key = f"team/{TASK}/{version}/config.json"
    s3_server.client.put_object(Bucket=BUCKET, Key=key, Body=b"{}")
    assert outfox("model", "verify", "--registry", url).code == 2, "the bucket is checked, not the cache"


def test_an_unusable_bucket_is_reported_in_one_line(
    outfox: Outfox, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    ran = outfox("model", "pins", TASK, "--registry", "s3://no-such-bucket/team")
    assert (ran.code, problems(ran)) == (2, 1), ran.err
    assert "NoSuchBucket" in ran.err
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    ran = outfox("model", "pins", TASK, "--registry", "s3://models/team")
    assert (ran.code, problems(ran)) == (3, 1), ran.err
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    ran = outfox("model", "pins", TASK, "--registry", "s3://models/team")
    assert (ran.code, problems(ran)) == (2, 1), ran.err
    assert "credentials" in ran.err
