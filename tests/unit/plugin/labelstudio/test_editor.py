"""The preview's pages without a browser: what is served, and what is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from common.errors import Hint
from plugin.errors import LabelStudioNotInstalled
from plugin.labelstudio import editor
from plugin.labelstudio.editor import EditorUnsupported, editor_bundle, preview_app
from templates import load_pack
from tests.conftest import replace_in


@pytest.fixture
def folder(copy_of: Callable[[str], Path]) -> Path:
    return copy_of("sentiment")


@pytest.fixture
def client(folder: Path) -> FlaskClient:
    return preview_app(load_pack(folder)).test_client()


def test_the_first_page_is_the_writers(client: FlaskClient) -> None:
    answer = client.get("/")
    assert answer.headers["Location"] == "/create"


@pytest.mark.parametrize("template", ["create", "validate"])
def test_each_template_has_its_page(client: FlaskClient, template: str) -> None:
    answer = client.get(f"/{template}")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe-eval" not in answer.headers["Content-Security-Policy"]


def test_a_template_error_is_shown_and_fixing_it_needs_no_restart(folder: Path, client: FlaskClient) -> None:
    replace_in(folder / "create.xml", "<Text ", "<Txt ")
    spoilt = client.get("/create").get_data(as_text=True)
    assert "&lt;Txt&gt; is not a tag of text templates" in spoilt
    replace_in(folder / "create.xml", "<Txt ", "<Text ")
    assert "is not a tag" not in client.get("/create").get_data(as_text=True)


def test_text_of_a_pack_cannot_leave_the_data_that_it_is_put_into(folder: Path, client: FlaskClient) -> None:
    replace_in(folder / "contexts.jsonl", "The mussels", "</script><script>alert(1)</script>")
    assert "<script>alert(1)" not in client.get("/create").get_data(as_text=True)


def test_the_editors_files_are_compressed_and_kept(client: FlaskClient) -> None:
    place = f"/editor/{editor_bundle().version}/main.js"
    answer = client.get(place, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "immutable" in answer.headers["Cache-Control"]
    assert len(answer.data) < (editor_bundle().folder / "main.js").stat().st_size / 2
    assert "Content-Encoding" not in client.get(place, headers={"Accept-Encoding": "identity"}).headers


@pytest.mark.parametrize(
    "place",
    [
        "/editor/{version}/../../../../label_studio/server.py",
        "/editor/{version}/..%2f..%2fmain.js",
        "/editor/{version}/%2e%2e/main.js",
        "/editor/{version}/main.js.map",
        "/editor/{version}/",
        "/editor/0.0.0/main.js",
        "/pages/preview.html",
        "/pages/..%2fsettings.py",
        "/static/fonts/..%2f..%2fsettings.py",
        "/other",
    ],
)
def test_other_paths_are_not_served(client: FlaskClient, place: str) -> None:
    assert client.get(place.format(version=editor_bundle().version)).status_code == 404


def test_other_host_names_are_refused(client: FlaskClient) -> None:
    assert client.get("/create", headers={"Host": "example.com"}).status_code == 400


def test_a_missing_editor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(LabelStudioNotInstalled):
        editor.editor_files()


def test_an_unsupported_editor_is_refused_with_the_supported_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.js").write_text("nothing that we look for", encoding="utf-8")
    monkeypatch.setattr(editor, "editor_files", lambda: tmp_path)
    editor.editor_bundle.cache_clear()
    try:
        with pytest.raises(EditorUnsupported) as caught:
            editor.editor_bundle()
        assert caught.value.hint == Hint("install_label_studio_version", version="1.23.2")
    finally:
        editor.editor_bundle.cache_clear()
