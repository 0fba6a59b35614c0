"""model.json: what a model version is, what it was made from and what its files must be."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from common.text import count
from ml_backend.errors import ModelError
from ml_backend.hashing import json_sha256
from ml_backend.model_files import read_json_object
from templates.part import Name
from templates.spec import TrainingSettings

FILE = "model.json"
CARD = "README.md"
ONNX = "model.onnx"
MAX_BYTES = 1_000_000
MOST_SOURCES = 1_000

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, Field(pattern=r"^m[0-9a-f]{12}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Text = Annotated[str, Field(min_length=1, max_length=500)]

# What may differ between two runs of one training; all the rest makes the version's name.
_NOT_CONTENT = frozenset({"version", "metrics", "serving", "sources", "code_version", "created_at"})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileRecord(_Part):
    """What one file must be."""

    sha256: Sha256
    size: int = Field(ge=0)


class DataRecord(_Part):
    """Which rows, however they were ordered."""

    sha256: Sha256
    rows: int = Field(ge=1)


class DataSource(_Part):
    """The rows to train on that came from one place: the task's seed, where `round` is None, or one of its rounds.

    `left_out` counts its rows that were not used: copies of other rows or of held-out ones, and those that do not fit.
    """

    round: int | None = Field(ge=1)
    sha256: Sha256
    rows: int = Field(ge=0)
    left_out: int = Field(0, ge=0)


class Serving(_Part):
    """What answers for a version, and how far it agrees with the PyTorch model on the held-out rows.

    `agreement` is in points, `headline` the accuracy of labels or the F1 of spans; `why` tells why it is not int8.
    """

    runtime: Literal["onnx", "torch"]
    precision: Literal["int8", "fp32"]
    agreement: float = Field(ge=0, le=100)
    rows: int = Field(ge=1)
    headline: float = Field(ge=0, le=100)
    torch_headline: float = Field(ge=0, le=100)
    why: Text | None = None


class Manifest(_Part):
    """A model version, whole."""

    format: Literal[1] = 1
    task: Name
    version: Version
    kind: Literal["classification", "qa"]
    labels: tuple[Text, ...] = Field(max_length=1_000)
    model_input: tuple[Name, ...] = Field(min_length=1, max_length=2)
    max_length: int = Field(ge=8, le=512)
    doc_stride: int = Field(ge=1, le=256)
    longest_answer: int = Field(ge=1, le=512)
    mode: Literal["full", "head"]
    parent: Version | None
    base: Text
    base_sha256: Sha256
    training: TrainingSettings
    train: DataRecord
    held_out: DataRecord
    # Where the rows to train on came from; empty where nobody said so.
    sources: tuple[DataSource, ...] = Field((), max_length=MOST_SOURCES)
    metrics: dict[str, Any]
    # Versions that were trained before there was a choice have none: PyTorch serves them.
    serving: Serving | None = None
    code_version: Text
    created_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")]
    files: dict[FileName, FileRecord] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _has_what_serves_it(self) -> Self:
        if self.has_onnx and ONNX not in self.files:
            raise ValueError(f"it is served by ONNX Runtime but has no {ONNX}")
        return self

    @model_validator(mode="after")
    def _sources_are_all(self) -> Self:
        counted = sum(source.rows for source in self.sources)
        if self.sources and counted != self.train.rows:
            raise ValueError(f"its sources have {count(counted, 'row')} together, not {self.train.rows}")
        return self

    @property
    def has_onnx(self) -> bool:
        """Whether ONNX Runtime serves this version."""
        return self.serving is not None and self.serving.runtime == "onnx"


def version_of(content: dict[str, Any]) -> str:
    """The name of a version: the same training has the same name, another one another."""
    named = {key: value for key, value in content.items() if key not in _NOT_CONTENT}
    # The card tells when it was written.
    named["files"] = {name: record for name, record in content["files"].items() if name != CARD}
    return f"m{json_sha256(named)[:12]}"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a model version's folder, or a ModelError; its files are not looked at."""
    path = directory / FILE
    content = read_json_object(path, MAX_BYTES)
    if content.get("format") != 1:
        raise ModelError(f"{path} is of format {content.get('format')!r}, this program reads 1; train the model again")
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ModelError(f"{path} is not right at {where}: {first['msg']}; train the model again") from error
    if manifest.version != version_of(manifest.model_dump(mode="json")):
        raise ModelError(f"{path} was changed: its content does not make version {manifest.version}; restore it")
    return manifest
