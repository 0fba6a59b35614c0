"""model.json and the model card: what a version is, what it was trained from, and the hash of each of its files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from common.text import count
from ml_backend.errors import ModelFileCorrupt, ModelMismatch, TargetKindUnknown
from ml_backend.hashing import json_sha256
from ml_backend.model_files import check_model_folder, read_json_object
from templates.sections import Name
from templates.spec import TrainingSettings

FILE = "model.json"
CARD = "README.md"
ONNX = "model.onnx"
MAX_BYTES = 1_000_000
MAX_SOURCES = 1_000
# The kind of a target whose manifest does not name one.
TRAINED = "trained"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# A letter for the kind of target, and the start of its content hash.
Version = Annotated[str, Field(pattern=r"^[a-z][0-9a-f]{12}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Text = Annotated[str, Field(min_length=1, max_length=500)]

# What may differ between two runs of one training; everything else determines the version id.
_NOT_CONTENT = frozenset({"target", "version", "metrics", "serving", "sources", "code_version", "created_at"})
_HOW = {
    "full": "all layers fine-tuned, the word embeddings unchanged",
    "head": "the encoder unchanged, a linear head fitted on its output",
}

_PURPOSE = "People try to fool it; do not use it to make decisions about people."
_CAUTION = (
    "Measured on the held-out rows with the runtime that serves it. The same rows chose the epoch (or the "
    "regularisation of the head), so expect slightly lower figures on new text, and much lower ones on text written to "
    "fool it."
)
_ELSEWHERE = (
    "any program that loads transformers models. Apply `ml_backend.text.normalise` to the text first, as training does "
    "(emoji become words)."
)
_FIGURES = ("accuracy", "macro_f1", "exact_match", "f1")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileRecord(_Part):
    """The hash and size of one file."""

    sha256: Sha256
    size: int = Field(ge=0)


class DataRecord(_Part):
    """A set of rows, independent of their order."""

    sha256: Sha256
    rows: int = Field(ge=1)


class DataSource(_Part):
    """The training rows from one source: the task's seed (`round` is None) or one of its rounds.

    `left_out` counts rows that were not used: duplicates, copies of held-out rows, and rows that do not fit the task.
    """

    round: int | None = Field(ge=1)
    sha256: Sha256
    rows: int = Field(ge=0)
    left_out: int = Field(0, ge=0)


class Serving(_Part):
    """The artefact that serves a version, and its agreement with the PyTorch model on the held-out rows.

    `agreement` is in points, `headline` the accuracy of labels or the F1 of spans; `why` is the reason it is not int8.
    `fp32_products` of the matrix products of an int8 form are computed in fp32.
    """

    runtime: Literal["onnx", "torch"]
    precision: Literal["int8", "fp32"]
    agreement: float = Field(ge=0, le=100)
    rows: int = Field(ge=1)
    headline: float = Field(ge=0, le=100)
    torch_headline: float = Field(ge=0, le=100)
    fp32_products: int = Field(0, ge=0)
    why: Text | None = None


class Manifest(_Part):
    """What every version has in common: its task, what it reads and predicts, and the files that it consists of.

    A kind of target is a subclass with its own fields, in `MANIFESTS`. `letter` begins the ids of its versions.
    """

    letter: ClassVar[str]

    format: Literal[1] = 1
    target: str
    task: Name
    version: Version
    kind: Literal["classification", "qa"]
    labels: tuple[Text, ...] = Field(max_length=1_000)
    model_input: tuple[Name, ...] = Field(min_length=1, max_length=2)
    parent: Version | None = None
    metrics: dict[str, Any] = Field(default_factory=dict)
    code_version: Text
    created_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")]
    files: dict[FileName, FileRecord] = Field(default_factory=dict, max_length=100)

    @property
    def data(self) -> dict[str, Any]:
        """What the version was made from, as the database stores it."""
        return {}

    @property
    def settings(self) -> dict[str, Any]:
        """How the version was made, as the database stores it."""
        return {"parent": self.parent}

    def check_folder(self, directory: Path) -> None:
        """Raise ModelError where the files in the folder are incomplete or not safe to open."""


class TrainedManifest(Manifest):
    """The manifest of a model that was trained here."""

    letter: ClassVar[str] = "m"

    target: Literal["trained"] = Field("trained", exclude=True)
    max_length: int = Field(ge=8)
    doc_stride: int = Field(ge=1)
    longest_answer: int = Field(ge=1)
    mode: Literal["full", "head"]
    base: Text
    base_sha256: Sha256
    training: TrainingSettings
    train: DataRecord
    held_out: DataRecord
    # The sources of the training rows; empty where they are not known.
    sources: tuple[DataSource, ...] = Field((), max_length=MAX_SOURCES)
    # Versions from before there were ONNX exports have none: PyTorch serves them.
    serving: Serving | None = None
    files: dict[FileName, FileRecord] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _check_serving(self) -> Self:
        if self.has_onnx and ONNX not in self.files:
            raise ValueError(f"ONNX Runtime serves it but it has no {ONNX}")
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        counted = sum(source.rows for source in self.sources)
        if self.sources and counted != self.train.rows:
            raise ValueError(f"its sources add up to {count(counted, 'row')}, not {self.train.rows}")
        return self

    @property
    def has_onnx(self) -> bool:
        """Whether ONNX Runtime serves this version."""
        return self.serving is not None and self.serving.runtime == "onnx"

    @property
    def data(self) -> dict[str, Any]:
        """The rows that the version was trained on, with their sources where known, and its base model."""
        content = self.model_dump(mode="json")
        names = ("train", "held_out", "base", "base_sha256", *(["sources"] if self.sources else []))
        return {name: content[name] for name in names}

    @property
    def settings(self) -> dict[str, Any]:
        """How the version was trained."""
        return {"mode": self.mode, "parent": self.parent, **self.training.model_dump(mode="json")}

    def check_folder(self, directory: Path) -> None:
        """Raise ModelError where the files in the folder are incomplete or not safe to open."""
        check_model_folder(directory)


# The manifest of each kind of target. A further kind adds its own here, and its loader to `targets.loading`.
MANIFESTS: dict[str, type[Manifest]] = {TRAINED: TrainedManifest}


def version_of(content: dict[str, Any], letter: str = TrainedManifest.letter) -> str:
    """Return the id of a version: a letter for its kind, and a hash of everything that determines its answers."""
    named = {key: value for key, value in content.items() if key not in _NOT_CONTENT}
    # The card contains the time of writing.
    named["files"] = {name: record for name, record in content["files"].items() if name != CARD}
    return f"{letter}{json_sha256(named)[:12]}"


def read_manifest(directory: Path) -> Manifest:
    """Return the manifest of a version's folder, without looking at its files; raise ModelFileCorrupt if invalid."""
    path = directory / FILE
    content = read_json_object(path, MAX_BYTES)
    kind = MANIFESTS.get(str(content.get("target", TRAINED)))
    if kind is None:
        known = ", ".join(MANIFESTS)
        raise TargetKindUnknown(f"{path} is for a target of kind {content['target']!r}; known kinds are {known}")
    if content.get("format") != 1:
        raise ModelFileCorrupt(f"{path} has format {content.get('format')!r}; this version of Outfox reads format 1")
    try:
        manifest = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ModelFileCorrupt(f"{path} is invalid at {where}: {first['msg']}; train the model again") from error
    if manifest.version != version_of(manifest.model_dump(mode="json"), manifest.letter):
        raise ModelFileCorrupt(f"{path} was changed: its content does not match version {manifest.version}; restore it")
    return manifest


def trained_only(manifest: Manifest) -> TrainedManifest:
    """Return the manifest of a model that was trained here; raise ModelMismatch for another kind of target."""
    if not isinstance(manifest, TrainedManifest):
        raise ModelMismatch(f"version {manifest.version} of {manifest.task} was not trained here")
    return manifest


def card_of(manifest: TrainedManifest) -> str:
    """Return the README.md of a model version that was trained here."""
    parts = [
        f"# {manifest.task} {manifest.version}",
        f"{_what(manifest)} model in the loop for the task `{manifest.task}`. {_PURPOSE}",
        "## Figures",
        *_figures(manifest),
        _CAUTION,
        "## How it was made",
        _table(("", ""), _facts(manifest)),
        "## Data",
        _table(
            ("part", "rows", "SHA-256 of the rows"),
            [(part, record.rows, f"`{record.sha256}`") for part, record in _data(manifest)],
        ),
        "## Use",
        f"`outfox model predict {manifest.task} --version {manifest.version}`, or {_ELSEWHERE}",
        "`model.json` contains the same data for programs, and the SHA-256 of every file.",
    ]
    return "\n\n".join(parts) + "\n"


def _what(manifest: TrainedManifest) -> str:
    if manifest.kind == "qa":
        return "An extractive question answering"
    texts = "one text" if len(manifest.model_input) == 1 else "two texts"
    return f"A {len(manifest.labels)}-label classification ({texts})"


def _figures(manifest: TrainedManifest) -> Iterable[str]:
    metrics = manifest.metrics
    named = [(name.replace("_", " "), f"{metrics[name]:.1f}") for name in _FIGURES if name in metrics]
    yield _table(("held out", "points of 100"), named)
    if isinstance(metrics.get("labels"), dict):
        columns = ("precision", "recall", "f1")
        rows = [
            (label, *(f"{one[column]:.1f}" for column in columns), one["support"])
            for label, one in metrics["labels"].items()
        ]
        yield _table(("label", *columns, "rows"), rows)
    if isinstance(metrics.get("confusion"), dict):
        rows = [(right, *said.values()) for right, said in metrics["confusion"].items()]
        yield _table(("right label ↓, model's →", *metrics["confusion"]), rows)


def _facts(manifest: TrainedManifest) -> Iterable[tuple[str, str]]:
    training = manifest.training
    yield "mode", f"{manifest.mode}: {_HOW[manifest.mode]}"
    yield "base", f"{manifest.base}, weights `{manifest.base_sha256}`"
    yield "parent", manifest.parent or "none"
    yield "reads", f"{' and '.join(manifest.model_input)}, at most {manifest.max_length} tokens at a time"
    if manifest.mode == "full":
        yield (
            "training",
            (
                f"at most {count(training.epochs, 'epoch')}, batches of {training.batch_size}, learning rate "
                f"{training.learning_rate:g}, patience {training.patience}"
            ),
        )
    yield "class weights", "yes" if training.class_weights and manifest.kind == "classification" else "no"
    yield "seed", str(training.seed)
    if manifest.serving:
        yield "served by", _served(manifest.serving)
    yield "made", f"{manifest.created_at} by Outfox {manifest.code_version}"


def _served(serving: Serving) -> str:
    if serving.runtime == "torch":
        return f"PyTorch, because {serving.why}"
    kept = f" ({count(serving.fp32_products, 'product')} in fp32)" if serving.fp32_products else ""
    told = (
        f"ONNX Runtime in {serving.precision}{kept}, which agrees with PyTorch on {serving.agreement:.1f} % of the "
        f"{count(serving.rows, 'held-out row')} ({serving.headline:.1f} points, PyTorch {serving.torch_headline:.1f})"
    )
    return f"{told}; not int8, because {serving.why}" if serving.why else told


def _data(manifest: TrainedManifest) -> Iterable[tuple[str, DataRecord | DataSource]]:
    yield "train", manifest.train
    for source in manifest.sources:
        yield f"of these from {'the seed' if source.round is None else f'round {source.round}'}", source
    yield "held out", manifest.held_out


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|")
