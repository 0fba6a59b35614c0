"""The bill of materials is valid CycloneDX, and an audit that could not be done is a failed one."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plugin.lock import LOCKS, read_lock
from tests.e2e.deploy.compose import ROOT


def script(name: str) -> ModuleType:
    """Return a script of deploy/ as a module."""
    spec = importlib.util.spec_from_file_location(f"deploy_{name}", ROOT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials_is_valid_and_names_every_package_of_the_runtime_lock() -> None:
    pytest.importorskip("cyclonedx", reason="`make setup` installs it")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = script("sbom").bill_of_materials()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {one["purl"] for one in json.loads(text)["components"]}
    locked = {f"pkg:pypi/{one.name}@{one.version}" for one in read_lock(LOCKS / "runtime.txt")}
    assert locked < listed
    assert any(one.startswith("pkg:pypi/torch@") for one in listed)


def package(name: str, *ids: str) -> dict[str, Any]:
    return {"name": name, "version": "1", "vulns": [{"id": one, "fix_versions": []} for one in ids]}


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        (json.dumps({"dependencies": [package("flask")]}), 0),
        (json.dumps({"dependencies": [package("flask"), package("click", "CVE-1")]}), 1),
        (json.dumps({"dependencies": [package("flask"), {"name": "click", "skip_reason": "not found"}]}), 2),
        (json.dumps({"dependencies": []}), 2),
        ("", 2),
    ],
)
def test_an_audit_passes_only_if_every_package_was_looked_up(
    printed: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = script("audit")
    files = list[Path]()

    def run(command: list[str], **_options: Any) -> Any:
        files.append(Path(command[command.index("--requirement") + 1]))
        return subprocess.CompletedProcess(command, 1, printed, "ConnectionError: no route to host")

    monkeypatch.setattr(audit.subprocess, "run", run)
    assert audit.main() == code
    assert (audit.ADVICE in capsys.readouterr().err) == (code == 2)
    if code == 0:
        assert {one.name for one in files} == {"runtime.txt", "test.txt", "ray.txt", "torch.txt"}
