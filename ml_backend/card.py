"""The model card: what a person should know about a model version before using it."""

from collections.abc import Iterable, Sequence

from common.text import count
from ml_backend.manifest import DataRecord, DataSource, Manifest, Serving

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


def card_of(manifest: Manifest) -> str:
    """The README.md of a model version."""
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


def _what(manifest: Manifest) -> str:
    if manifest.kind == "qa":
        return "An extractive question answering"
    texts = "one text" if len(manifest.model_input) == 1 else "two texts"
    return f"A {len(manifest.labels)}-label classification ({texts})"


def _figures(manifest: Manifest) -> Iterable[str]:
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


def _facts(manifest: Manifest) -> Iterable[tuple[str, str]]:
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
    told = (
        f"ONNX Runtime in {serving.precision}, which agrees with PyTorch on {serving.agreement:.1f} % of the "
        f"{count(serving.rows, 'held-out row')} ({serving.headline:.1f} points, PyTorch {serving.torch_headline:.1f})"
    )
    return f"{told}; not int8, because {serving.why}" if serving.why else told


def _data(manifest: Manifest) -> Iterable[tuple[str, DataRecord | DataSource]]:
    yield "train", manifest.train
    for source in manifest.sources:
        yield f"of these from {'the seed' if source.round is None else f'round {source.round}'}", source
    yield "held out", manifest.held_out


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|")
