"""`outfox labelstudio`: mistakes that are reported without a request to Label Studio."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin.server_process import free_port
from tests.conftest import Outfox, replace_in
from tests.integration.databases import SqliteDatabases


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture
def ready(outfox: Outfox, databases: SqliteDatabases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outfox:
    """The command with a database, and a Label Studio that is not there."""
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", "0" * 40)
    databases.lay_tables(f"sqlite:///{tmp_path / 'home' / 'outfox.db'}")
    return outfox


@pytest.mark.parametrize("command", ["connect", "push", "sync", "status"])
def test_an_unknown_task_is_reported_with_a_hint(ready: Outfox, command: str) -> None:
    ran = ready("labelstudio", command, "sentiment", "--json")
    assert (ran.failure, ran.error["hint"]["action"]) == ((2, "task_not_found"), "create_task")


@pytest.mark.parametrize("command", ["push", "sync"])
def test_an_unconnected_task_is_reported_with_a_hint(ready: Outfox, command: str) -> None:
    ready("task", "create", "sentiment")
    ran = ready("labelstudio", command, "sentiment", "--json")
    assert (ran.failure, ran.error["hint"]["action"]) == ((2, "label_studio_not_connected"), "connect_label_studio")


def test_sync_needs_a_task_or_all(ready: Outfox) -> None:
    assert ready("labelstudio", "sync").code == 2
    assert ready("labelstudio", "sync", "sentiment", "--all").code == 2
    ran = ready("labelstudio", "sync", "--all", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, [])


def test_status_works_while_label_studio_is_down(ready: Outfox) -> None:
    ready("task", "create", "sentiment")
    ran = ready("labelstudio", "status", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["user"], found["retry"], found["unconnected"]) == (3, None, True, ["sentiment"])


def test_a_missing_token_is_reported(ready: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", "")
    ran = ready("labelstudio", "status", "--json")
    assert (ran.code, json.loads(ran.out)["retry"]) == (2, False)


@pytest.mark.parametrize("text", ["", "nobody", ":word", "user:"])
def test_an_invalid_password_file_is_refused(ready: Outfox, tmp_path: Path, text: str) -> None:
    ready("task", "create", "sentiment")
    file = tmp_path / "auth"
    file.write_text(text, encoding="utf-8")
    ran = ready("labelstudio", "connect", "sentiment", "--ml-auth", file, "--json")
    assert ran.failure == (2, "settings_error")
    assert ready("labelstudio", "connect", "sentiment", "--ml-auth", tmp_path / "none").code == 2


def test_a_changed_pack_must_be_updated_first(ready: Outfox, copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("sentiment")
    ready("task", "create", folder)
    replace_in(folder / "task.yaml", "tries: 10", "tries: 9")
    ran = ready("labelstudio", "connect", "sentiment", "--json")
    assert (ran.code, ran.error["hint"]["action"]) == (2, "update_task")


def test_changed_round_limits_do_not_matter(ready: Outfox, copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("sentiment")
    ready("task", "create", folder)
    replace_in(folder / "task.yaml", "target_fooling: 200", "target_fooling: 20")
    ran = ready("labelstudio", "connect", "sentiment", "--json")
    assert ran.failure == (3, "label_studio_unavailable")
