"""The models that a user names: a version, a folder, a model of the hub, an ONNX folder or a file of predictions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import Hint
from ml_backend.artefact import read_manifest
from ml_backend.checkpoint import fetch_from_hub
from ml_backend.errors import LabelMappingUnknown, ModelNotFound
from ml_backend.evaluation.predictions import ENDINGS, read_predictions
from ml_backend.hashing import json_sha256
from ml_backend.manifest import FILE as MANIFEST
from ml_backend.manifest import ONNX
from ml_backend.registry.registry import Registry
from ml_backend.targets.foreign import ForeignModel, inspect_folder
from ml_backend.targets.label_mapping import LabelMapping
from ml_backend.targets.sources import ModelSource, SourceKind
from round_manager.evaluation.work import Candidate
from round_manager.learning.versions import check_fits
from templates import TaskSpec

_VERSION = re.compile(r"[a-z][0-9a-f]{12}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_NAMED = re.compile(r"(?P<name>[^=/\\]{1,80})=(?P<what>.+)")
HASH_CHARS = 12

# Asks a person whether a mapping is right.
Confirm = Callable[[str, LabelMapping], bool]


def _no_one(name: str, mapping: LabelMapping) -> bool:
    return False


@dataclass(frozen=True)
class CandidateFinder:
    """Finds models by what users write. `labels` maps the labels of foreign models to the task's."""

    spec: TaskSpec
    registry: Registry | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    confirm: Confirm = _no_one
    runtime: str = "auto"

    def find(self, written: Sequence[str]) -> list[Candidate]:
        """Return a candidate for each text, in their order: `name=model` or only the model."""
        found = [self._find(*_split(one)) for one in written]
        if self.labels and not any(one.kind in ("huggingface", "onnx") for one in found):
            raise LabelMappingUnknown(
                "a mapping of labels is for Hugging Face and ONNX models, and none of these is one",
                hint=Hint("evaluate_models", task=self.spec.name),
            )
        return found

    def _find(self, name: str, what: str) -> Candidate:
        path = Path(what).expanduser()
        if path.is_file() and path.suffix.lower() in ENDINGS:
            return self._predictions(name or path.stem, path)
        if path.is_file() and path.name == ONNX:
            path = path.parent
        if path.is_dir():
            if (path / MANIFEST).is_file():
                return self._version(name or path.name, path)
            return self._foreign(name or path.resolve().name, inspect_folder(path))
        if _VERSION.fullmatch(what) and self.registry is not None:
            return self._version(name or what, self.registry.fetch(self.spec.name, what))
        if _HUB_ID.fullmatch(what) and not path.is_absolute():
            return self._foreign(name or what, inspect_folder(fetch_from_hub(what), links_allowed=True))
        raise ModelNotFound(
            f"`{what}` is no version, folder, hub model or file of predictions ({', '.join(ENDINGS)}); check the name",
            hint=Hint("list_models", task=self.spec.name),
        )

    def _version(self, name: str, directory: Path) -> Candidate:
        manifest = read_manifest(directory)
        check_fits(self.spec, manifest)
        source = self._source("version", directory, manifest.version, manifest.labels)
        # Another runtime can give other answers.
        own_id = manifest.version if self.runtime == "auto" else f"{manifest.version}-{self.runtime}"
        return Candidate(own_id, name, "version", source)

    def _foreign(self, name: str, model: ForeignModel) -> Candidate:
        labels = self._labels(name, model) if self.spec.kind == "classification" else ()
        identity = json_sha256({"files": model.sha256, "labels": list(labels), "fields": list(self.spec.model_input)})
        own_id = f"{'hf' if model.kind == 'huggingface' else 'onnx'}-{identity[:HASH_CHARS]}"
        return Candidate(own_id, name, model.kind, self._source(model.kind, model.directory, own_id, labels))

    def _labels(self, name: str, model: ForeignModel) -> tuple[str, ...]:
        # Of several models, the mapping is for those that have its labels.
        given = self.labels if set(self.labels) & set(model.output_names) else None
        mapping = model.mapping(self.spec.label_names, given)
        if not mapping.certain and self.confirm(name, mapping):
            return mapping.labels
        return mapping.confirmed()

    def _source(self, kind: SourceKind, directory: Path, version: str, labels: Sequence[str]) -> ModelSource:
        fields = self.spec.model_input
        return ModelSource(kind, str(directory.resolve()), version, self.spec.kind, fields, tuple(labels), self.runtime)

    def _predictions(self, name: str, path: Path) -> Candidate:
        found = read_predictions(path.resolve(), self.spec)
        return Candidate(f"file-{found.sha256[:HASH_CHARS]}", name, "predictions", predictions=str(path.resolve()))


def _split(written: str) -> tuple[str, str]:
    named = _NAMED.fullmatch(written)
    return (named["name"].strip(), named["what"]) if named else ("", written)
