"""Starting and stopping Label Studio, and the errors when it does not start."""

import socket
from pathlib import Path

import pytest

from plugin.labelstudio.server import LabelStudioServer, LabelStudioStartFailed
from plugin.server_process import free_port
from round_manager.labelstudio.port import LabelStudioRefused, TokenRejected
from templates import find_pack
from tests.e2e.first_start import FirstStart
from tests.e2e.plugin.labelstudio.conftest import Studio
from tests.e2e.plugin.labelstudio.projects import LabelStudio

TOKEN = "0123456789" * 4


def server(folder: Path, **changed: object) -> LabelStudioServer:
    given = {"port": free_port(), "email": "owner@example.com", "password": "not-secret", "token": TOKEN, **changed}
    return LabelStudioServer(folder, **given)  # type: ignore[arg-type]


def test_a_port_in_use_is_reported_before_the_start(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LabelStudioStartFailed):
            server(tmp_path / "data", port=port).start()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("changed", [{"email": "owner"}, {"token": "short"}])
def test_invalid_options_are_refused_before_the_start(tmp_path: Path, changed: dict[str, str]) -> None:
    with pytest.raises(LabelStudioStartFailed):
        server(tmp_path, **changed).start()


def test_an_exit_during_the_start_shows_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "label_studio.sqlite3").mkdir()
    one = server(tmp_path)
    with pytest.raises(LabelStudioStartFailed) as caught:
        one.start()
    assert "unable to open database file" in str(caught.value)
    assert str(one.log_file) in str(caught.value)


def test_passwords_and_tokens_are_not_shown(tmp_path: Path) -> None:
    assert "not-secret" not in repr(server(tmp_path))
    assert TOKEN not in repr(server(tmp_path))


def test_the_first_start_migrates_and_reports_it(first_start: FirstStart) -> None:
    assert first_start.told[0] == "Label Studio is starting"
    assert first_start.told[-1] == "Label Studio prepares its database"


def test_contexts_are_imported_once(studio: Studio) -> None:
    pack = find_pack("nli")
    project = studio.projects.ensure_project(pack, "create")
    first = studio.projects.import_contexts(project, pack)
    again = studio.projects.import_contexts(project, pack)
    assert (len(first), again) == (len(pack.contexts), [])
    assert studio.projects.find_project("nli: write") == project
    assert studio.projects.ensure_project(pack, "create", known_id=project.id) == project


def test_a_wrong_token_is_explained(studio: Studio) -> None:
    with pytest.raises(TokenRejected) as caught:
        LabelStudio(studio.server.url, "0" * 40).find_project("nli: write")
    assert not caught.value.retry


def test_a_task_without_its_texts_is_refused_with_the_missing_name(studio: Studio) -> None:
    project = studio.projects.ensure_project(find_pack("nli"), "create")
    with pytest.raises(LabelStudioRefused, match="premise"):
        studio.projects.import_tasks(project, [{"data": {"text": "a"}}])


def test_the_data_folder_is_private(first_start: FirstStart) -> None:
    assert first_start.database.parent.stat().st_mode & 0o077 == 0
