"""What `import outfox` says of spoiled files and silent servers: which it is and what to do, in nobody else's words."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import outfox

# What json, pyarrow, pandas and requests say, and what Python calls their errors.
OTHERS = (
    "Expecting", "delimiter", "char 0", "codec", "utf-8", "Error", "indices", "NoneType", "Parquet", "magic", "Index",
    "Thrift", "schema", "HTTPConnection", "Max retries", "Timeout", "convert", "dtype", "astype", "subscriptable",
    "[Errno", "unhashable",
)  # fmt: skip


def told(call: Callable[[], object]) -> str:
    with pytest.raises(outfox.OutfoxError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.__cause__ is not None, "whoever looks for the cause finds it"
    assert not [word for word in OTHERS if word in text], text
    return text


def change(archive: Path, key: str, value: Any) -> None:
    manifest = json.loads((archive / "manifest.json").read_bytes())
    (archive / "manifest.json").write_text(json.dumps({**manifest, key: value}), encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{oops", "is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "is not the manifest of an archive"),
        (b"null", "is not the manifest of an archive"),
        (b"{}", "is not the manifest of an archive"),
    ],
)
def test_a_spoiled_manifest_is_told_with_its_file_and_the_cure(archive: Path, content: bytes, said: str) -> None:
    (archive / "manifest.json").write_bytes(content)
    text = told(lambda: outfox.load("sentiment", path=archive))
    assert text == f"{archive / 'manifest.json'} {said}; copy the archive again"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("files", {}, "has no part 'examples.parquet'"),
        ("files", [], "has parts of another kind than every archive has"),
        ("files", None, "has parts of another kind than every archive has"),
        ("spec", None, "has parts of another kind than every archive has"),
    ],
)
def test_what_a_manifest_lacks_is_named(archive: Path, key: str, value: Any, said: str) -> None:
    change(archive, key, value)
    text = told(lambda: outfox.load("sentiment", path=archive))
    assert text == f"{archive / 'manifest.json'} {said}; copy the archive again"


def test_a_table_that_is_none_is_told_with_its_file_and_the_cure(archive: Path) -> None:
    (archive / "examples.parquet").write_bytes(b"no table at all")
    text = told(lambda: outfox.load("sentiment", path=archive, verify=False))
    assert text.startswith(f"{archive / 'examples.parquet'} was spoiled and cannot be read; ")


@pytest.mark.parametrize("form", ["datasets", "dynasent"])
def test_values_that_fit_no_form_are_told_with_what_to_export(archive: Path, tmp_path: Path, form: str) -> None:
    df = outfox.load("sentiment", path=archive)
    df["tries"], df["verdicts"] = "often", 5
    text = told(lambda: outfox.export(df, form, tmp_path / "out"))
    assert text == f"this DataFrame has values that do not fit the form {form}; export one as `outfox.load` returned it"


def test_a_column_that_is_gone_is_named(archive: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archive).drop(columns="split")
    text = told(lambda: outfox.export(df, "datasets", tmp_path / "out"))
    assert text == "this DataFrame has no column 'split'; export one with all columns"


@pytest.fixture
def mute() -> Iterator[str]:
    """An address where somebody listens who never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_server_that_is_silent_or_absent_is_told_as_that(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outfox, "WAITS", ())
    monkeypatch.setattr(outfox, "TIMEOUTS", (0.2, 0.2))
    text = told(lambda: outfox.load("sentiment", url=mute))
    assert text == f"{mute} does not answer (it takes too long); check `url` and try again"
    text = told(lambda: outfox.load("sentiment", url="http://127.0.0.1:9"))
    assert (
        text == "http://127.0.0.1:9 does not answer (nobody is there, or the line was cut); check `url` and try again"
    )
    text = told(lambda: outfox.load("sentiment", url=mute.replace("http:", "https:")))
    assert "does not answer (" in text
