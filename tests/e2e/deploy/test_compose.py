"""What docker-compose.yml, .env.example and the scripts beside them promise, without starting anything."""

import os
import re
import shutil
import stat
import subprocess
import warnings
from pathlib import Path

import pytest
import yaml

from plugin.settings import PREFIX, Settings
from tests.e2e.deploy.compose import EXAMPLE, FILE, ROOT, Missing, document, services, variables_of
from tests.e2e.deploy.machine import PORTS

MAKE_ENV = ROOT / "deploy" / "make-env.sh"
NEEDED = (
    "OUTFOX_SECRET",
    "POSTGRES_PASSWORD",
    "OUTFOX_DB_PASSWORD",
    "LABEL_STUDIO_DB_PASSWORD",
    "MARKETPLACE_DB_PASSWORD",
    "LABEL_STUDIO_EMAIL",
    "LABEL_STUDIO_PASSWORD",
    "LABEL_STUDIO_TOKEN",
    "ML_BACKEND_PASSWORD",
)


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    """An .env as the script makes it."""
    file = tmp_path / ".env"
    subprocess.run(["sh", str(MAKE_ENV), str(file)], check=True)
    return file


def _config(*options: str) -> "subprocess.CompletedProcess[str] | None":
    """Return the output of `docker-compose config`, or None if it is not installed."""
    program = shutil.which("docker-compose")
    if program is None:
        warnings.warn("docker-compose is not on PATH: the file was parsed by the tests only", stacklevel=2)
        return None
    command = [program, "-f", str(FILE), *options, "config"]
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=False)


def test_docker_compose_accepts_the_file_and_reads_it_as_we_do(env_file: Path) -> None:
    found = services(variables_of(env_file))
    assert set(found) == {"postgres", "migrate", "label-studio", "web", "ml-backend", "manager", "marketplace"}
    ran = _config("--env-file", str(env_file), "--profile", "crowd")
    if ran is None:
        return
    assert ran.returncode == 0, ran.stderr
    theirs = yaml.safe_load(ran.stdout)["services"]
    for name, ours in found.items():
        told = theirs[name]
        environment = {key: value for key, value in told["environment"].items() if value is not None}
        assert (tuple(told.get("command", ())), environment) == (ours.command, dict(ours.environment))
        assert tuple(told.get("healthcheck", {}).get("test", ["CMD"])[1:]) == ours.health


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_variable_is_reported_with_a_hint(env_file: Path, name: str) -> None:
    written = re.sub(rf"(?m)^{name}=.*$", f"{name}=", env_file.read_text(encoding="utf-8"))
    env_file.write_text(written, encoding="utf-8")
    with pytest.raises(Missing, match=rf"{name} is missing in \.env; "):
        services(variables_of(env_file))


def test_docker_compose_refuses_the_unedited_example_and_says_what_to_do() -> None:
    ran = _config("--env-file", str(EXAMPLE))
    if ran is not None:
        assert ran.returncode != 0
        assert "is missing in .env; deploy/make-env.sh" in ran.stderr


def test_no_secret_has_a_default_or_a_value_in_the_example() -> None:
    written = FILE.read_text(encoding="utf-8")
    assert not re.findall(r"\$\{[A-Z_]*(?:PASSWORD|SECRET|TOKEN)[A-Z_]*:-[^}]+\}", written)
    example = variables_of(EXAMPLE)
    assert {name for name in NEEDED if example[name]} == {"LABEL_STUDIO_EMAIL"}


def test_every_variable_of_the_file_is_in_the_example() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+)", FILE.read_text(encoding="utf-8")))
    told = set(re.findall(r"(?m)^#?([A-Z_0-9]+)=", EXAMPLE.read_text(encoding="utf-8")))
    assert asked - told == {"OUTFOX_IMAGE", "OUTFOX_LOG_LEVEL", "CROWD_SITE_URL", "ML_BACKEND_URL"}
    assert set(NEEDED) <= asked


def test_every_setting_in_the_file_exists(env_file: Path) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for service in services(variables_of(env_file)).values():
        named = {key for key in service.environment if key.startswith(PREFIX)} - {"OUTFOX_DB_PASSWORD"}
        assert named <= known


def test_generated_secrets_are_random_private_and_never_overwritten(tmp_path: Path, env_file: Path) -> None:
    first = variables_of(env_file)
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{40}", first["LABEL_STUDIO_TOKEN"])
    secrets = [first[name] for name in NEEDED if name not in ("LABEL_STUDIO_EMAIL", "LABEL_STUDIO_TOKEN")]
    assert all(re.fullmatch("[0-9a-f]{64}", secret) for secret in secrets)
    assert len(set(secrets)) == len(secrets)
    again = subprocess.run(["sh", str(MAKE_ENV), str(env_file)], capture_output=True, text=True, check=False)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert variables_of(env_file) == first
    assert [one.name for one in tmp_path.iterdir()] == [".env"]


def test_only_the_ports_that_people_open_are_published_and_only_locally(env_file: Path) -> None:
    found = services(variables_of(env_file))
    published = {name: one.ports for name, one in found.items() if one.ports}
    assert published == {
        name: (f"127.0.0.1:{PORTS[name]}:{PORTS[name]}",) for name in ("label-studio", "web", "marketplace")
    }


def test_every_server_has_a_health_check_and_restarts_after_a_crash(env_file: Path) -> None:
    found = services(variables_of(env_file))
    for name, port in PORTS.items():
        assert any(re.search(rf"(^|:){port}(/|$)", part) for part in found[name].health), name
    assert found["manager"].health[-1] == "manager"
    assert {name for name, one in found.items() if one.restart != "unless-stopped"} == {"migrate"}
    assert {name for name, one in found.items() if one.profiles} == {"marketplace"}


def test_the_database_is_migrated_before_any_service_uses_it(env_file: Path) -> None:
    found = services(variables_of(env_file))
    assert found["migrate"].needs == {"postgres": "service_healthy"}
    for name in ("web", "ml-backend", "manager"):
        assert found[name].needs == {"migrate": "service_completed_successfully"}
    for name in ("label-studio", "marketplace"):
        assert found[name].needs == {"postgres": "service_healthy"}


def test_no_service_gets_the_password_of_another(env_file: Path) -> None:
    values = variables_of(env_file)
    found = services(values)
    holders = {
        name: {one for one in found if any(values[name] in text for text in found[one].environment.values())}
        for name in NEEDED
        if name != "LABEL_STUDIO_EMAIL"
    }
    outfox = {"migrate", "web", "ml-backend", "manager"}
    assert holders == {
        "OUTFOX_SECRET": outfox,
        "POSTGRES_PASSWORD": {"postgres"},
        "OUTFOX_DB_PASSWORD": outfox | {"postgres"},
        "LABEL_STUDIO_DB_PASSWORD": {"postgres", "label-studio"},
        "MARKETPLACE_DB_PASSWORD": {"postgres", "marketplace"},
        "LABEL_STUDIO_PASSWORD": {"label-studio"},
        "LABEL_STUDIO_TOKEN": outfox | {"label-studio"},
        "ML_BACKEND_PASSWORD": outfox,
    }
    shown = [part for one in found.values() for part in (*one.command, *one.health)]
    assert not any(value in part for part in shown for name, value in values.items() if name in NEEDED)


def test_every_volume_is_declared_and_persistent(env_file: Path) -> None:
    named = {
        source
        for one in services(variables_of(env_file)).values()
        for source in one.volumes.values()
        if not source.startswith(".")
    }
    assert named == set(document()["volumes"])
