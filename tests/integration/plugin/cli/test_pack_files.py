"""Packs as files: exported, imported from zips, folders and git, and compared; hostile ones are refused."""

import json
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from templates import load_pack
from templates.pack_archive import MAX_FILE_BYTES
from tests.conftest import Outfox, replace_in
from tests.fakes.git_server import commit, git, git_app
from tests.fakes.http_server import RunningServer

CopyOf = Callable[[str], Path]


@pytest.fixture
def shared(outfox: Outfox, copy_of: CopyOf, tmp_path: Path) -> Path:
    """The sentiment pack, exported."""
    folder = copy_of("sentiment")
    replace_in(
        folder / "task.yaml",
        "author: Outfox\nlicence: Apache-2.0\n",
        "version: '1.2'\nauthor: Ada\nlicence: CC-BY-4.0\n",
    )
    file = tmp_path / "sentiment.zip"
    ran = outfox("templates", "export", folder, file)
    assert ran.code == 0, ran.err
    return file


def imported(outfox: Outfox, source: object, *more: object) -> dict[str, Any]:
    ran = outfox("templates", "import", source, "--json", *more)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def refusals(outfox: Outfox, source: object, *more: object) -> set[str]:
    ran = outfox("templates", "import", source, "--json", *more)
    assert ran.failure == (2, "pack_refused")
    return {one["code"] for one in ran.error["details"]}


def rezipped(shared: Path, added: Mapping[str, bytes], *, mode: int = 0o644, kind: int = stat.S_IFREG) -> Path:
    """Return a copy of the zip with other or further files."""
    other = shared.with_name("other.zip")
    with zipfile.ZipFile(shared) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename not in added:
                new.writestr(entry, old.read(entry))
        for name, data in added.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (kind | mode) << 16
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return other


def test_a_pack_is_exported_and_imported_elsewhere(outfox: Outfox, shared: Path, tmp_path: Path) -> None:
    done = imported(outfox, shared)
    assert (done["version"], done["author"], done["licence"], done["verified"]) == ("1.2", "Ada", "CC-BY-4.0", True)
    assert done["problems"] == []
    pack = load_pack(Path(done["folder"]))
    assert len(pack.seed) == 1200
    # The same pack gives the same file, wherever it is.
    again = json.loads(outfox("templates", "export", pack.folder, tmp_path / "again.zip", "--json").out)
    assert ((tmp_path / "again.zip").read_bytes(), again["sha256"]) == (shared.read_bytes(), done["sha256"])
    assert outfox("templates", "import", shared, "--json").failure == (2, "pack_exists")
    assert imported(outfox, shared, "--replace")["sha256"] == done["sha256"]
    assert load_pack(Path(imported(outfox, shared, "--name", "moods")["folder"])).spec.name == "moods"
    assert "moods" in outfox("templates", "list").out


def test_two_versions_of_a_pack_are_compared(outfox: Outfox, shared: Path) -> None:
    folder = Path(imported(outfox, shared)["folder"])
    assert "the same" in outfox("templates", "diff", shared, folder).out
    replace_in(folder / "task.yaml", "version: '1.2'", "version: '1.3'")
    replace_in(folder / "task.yaml", "title: Negative", "title: Bad")
    replace_in(folder / "instructions.md", "Write one review sentence", "Write one sentence")
    seed = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "seed.jsonl").write_text("".join(seed[:-1]), encoding="utf-8")
    found = json.loads(outfox("templates", "diff", shared, folder, "--json").out)
    assert [one["setting"] for one in found["settings"]] == ["version", "labels.negative.title"]
    assert found["rows"]["seed"] == {"added": 0, "removed": 1, "changed": 0}
    assert list(found["texts"]) == ["instructions.md"]
    assert "-Write one review sentence" in outfox("templates", "diff", shared, folder).out


@pytest.mark.parametrize(
    ("name", "data", "mode", "kind", "code"),
    [
        ("sentiment/../../evil.md", b"x", 0o644, stat.S_IFREG, "path_not_allowed"),
        ("/evil.md", b"x", 0o644, stat.S_IFREG, "path_not_allowed"),
        ("sentiment\\..\\evil.md", b"x", 0o644, stat.S_IFREG, "path_not_allowed"),
        ("sentiment/notes.md", b"/etc/passwd", 0o777, stat.S_IFLNK, "link_not_allowed"),
        ("sentiment/run.md", b"x", 0o755, stat.S_IFREG, "program_not_allowed"),
        ("sentiment/run.txt", b"#!/bin/sh\n", 0o644, stat.S_IFREG, "program_not_allowed"),
        ("sentiment/run.py", b"x", 0o644, stat.S_IFREG, "file_not_allowed"),
        ("sentiment/data.txt", b"a\0b", 0o644, stat.S_IFREG, "file_not_utf8"),
        ("sentiment/README.MD", b"x", 0o644, stat.S_IFREG, "file_duplicate"),
        ("sentiment/more.md", b"x", 0o644, stat.S_IFREG, "manifest_differs"),
        ("sentiment/seed.jsonl", b"{}", 0o644, stat.S_IFREG, "manifest_differs"),
        ("sentiment/pack.json", b"[" * 100_000, 0o644, stat.S_IFREG, "manifest_invalid"),
        ("sentiment/big.txt", b" " * (MAX_FILE_BYTES + 1), 0o644, stat.S_IFREG, "pack_too_large"),
    ],
)
def test_a_hostile_zip_is_refused(
    outfox: Outfox, shared: Path, tmp_path: Path, name: str, data: bytes, mode: int, kind: int, code: str
) -> None:
    assert refusals(outfox, rezipped(shared, {name: data}, mode=mode, kind=kind)) == {code}
    assert not (tmp_path / "home" / "templates").exists()
    assert not list(tmp_path.rglob("evil.md"))


def test_many_small_files_that_grow_are_refused(outfox: Outfox, shared: Path) -> None:
    bomb = {f"sentiment/{number}.txt": b" " * (MAX_FILE_BYTES - 1) for number in range(3)}
    assert refusals(outfox, rezipped(shared, bomb)) == {"pack_too_large"}
    many = {f"sentiment/{number}.txt": b"" for number in range(600)}
    assert refusals(outfox, rezipped(shared, many)) == {"pack_too_large"}
    shared.write_bytes(shared.read_bytes()[:-40])
    assert refusals(outfox, shared) == {"pack_unreadable"}


def test_a_folder_is_imported_without_its_hidden_files_and_never_through_links(
    outfox: Outfox, copy_of: CopyOf, tmp_path: Path
) -> None:
    folder = copy_of("sentiment")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x", encoding="utf-8")
    done = imported(outfox, folder)
    assert not (Path(done["folder"]) / ".git").exists()
    assert done["verified"] is False
    (folder / "more").symlink_to(tmp_path, target_is_directory=True)
    assert refusals(outfox, folder, "--name", "other") == {"link_not_allowed"}


def test_a_pack_is_imported_from_a_git_repository(outfox: Outfox, copy_of: CopyOf, tmp_path: Path) -> None:
    packs = copy_of("sentiment").parent
    copy_of("nli")
    commit(packs)
    with RunningServer(git_app(packs.parent)) as server:
        url = f"http://127.0.0.1:{server.port}/packs/.git"
        assert imported(outfox, url, "--pack", "nli")["name"] == "nli"
        assert refusals(outfox, url) == {"pack_ambiguous"}
        # A link in the repository is not followed, and a branch that does not exist is reported.
        git(packs, "checkout", "--quiet", "-b", "links")
        (packs / "nli" / "secrets.md").symlink_to("/etc/passwd")
        commit(packs)
        assert refusals(outfox, url, "--pack", "nli", "--ref", "links", "--name", "other") == {"link_not_allowed"}
        ran = outfox("templates", "import", url, "--ref", "nowhere", "--json")
        assert ran.failure == (3, "git_failed")


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch EVIL'",
        "file:///etc",
        "http://example.com/packs.git",
        "git://example.com/packs.git",
        "ssh://-oProxyCommand=touch%20EVIL/x",
        "ssh://-oProxyCommand=x@example.com/x",
        "https://exa mple.com/x",
        "https:///x",
    ],
)
def test_an_unsafe_address_is_refused_before_git_runs(
    outfox: Outfox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert outfox("templates", "import", url, "--json").failure == (2, "git_refused")
    assert outfox("templates", "import", "https://example.com/x", "--ref", "--upload-pack=x", "--json").failure[0] == 2
    assert not list(tmp_path.rglob("EVIL"))
