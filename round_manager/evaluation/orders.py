"""Orders of evaluations that other machines carry out, with the files that only this machine has.

<place>/<task>/evaluations/
    orders/<token>.json       the pieces of work
    uploads/<id>.json         the files of one upload with their hashes; written last
    uploads/<id>/…            a model's folder, a file of predictions, or a file of rows

In an order, `version:` names a version of the registry and `upload:` an upload; everything else is in the archives.
"""

import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from ml_backend.hashing import file_sha256
from round_manager.archive.storage import S3
from round_manager.errors import ArchiveCorrupt, EvaluationOrderNotFound
from round_manager.evaluation.data_sets import DataSet
from round_manager.evaluation.storage import UPLOADS, EvaluationStore
from round_manager.evaluation.work import Candidate, Work

VERSION, UPLOAD = "version:", "upload:"
_WORK = TypeAdapter(Work)
_ORDER = TypeAdapter(list[Work])
_FILES = TypeAdapter(dict[str, str])

# Whether the registry has a version.
IsPublished = Callable[[str], bool]
FetchVersion = Callable[[str], Path]


def write_order(store: EvaluationStore, token: str, work: Iterable[Work], is_published: IsPublished) -> None:
    """Store an order, and before it the files that other machines do not find."""
    pieces = []
    for one in work:
        model, data = _portable_model(store, one.model, is_published), _portable_data(store, one.data)
        # Paths of this machine mean nothing on another one.
        pieces.append(replace(one, model=model, data=data, place="", cache=""))
    store.store_order(token, _ORDER.dump_json(pieces))


def read_order(store: EvaluationStore, token: str) -> list[str]:
    """Return the pieces of an order as JSON; raise EvaluationOrderNotFound if there is none."""
    content = store.order(token)
    if content is None:
        raise EvaluationOrderNotFound(
            f"there is no order {token} where this machine finds the archives; "
            "the machines of a cluster must reach the same registry and archives"
        )
    try:
        return [_WORK.dump_json(one).decode() for one in _ORDER.validate_json(content)]
    except ValidationError as error:
        raise ArchiveCorrupt(f"the order {token} is not valid; evaluate again") from error


@dataclass(frozen=True)
class Resolver:
    """Turns a piece of an order into work on this machine; `cache` keeps uploads that were downloaded."""

    store: EvaluationStore
    fetch: FetchVersion
    place: str
    cache: Path

    def work(self, piece: str) -> Work:
        """Return the work; its model and its rows are on this machine or in the archives."""
        work = _WORK.validate_json(piece)
        model, data = work.model, work.data
        if model.source is not None:
            model = replace(model, source=replace(model.source, directory=self._path(model.source.directory)))
        model = replace(model, predictions=self._path(model.predictions))
        data = replace(data, place=self._path(data.place))
        return replace(work, model=model, data=data, place=self.place, cache=str(self.cache))

    def _path(self, text: str) -> str:
        if text.startswith(VERSION):
            return str(self.fetch(text.removeprefix(VERSION)).resolve())
        if text.startswith(UPLOAD):
            own_id, _, name = text.removeprefix(UPLOAD).partition("/")
            folder = download(self.store, own_id, self.cache / UPLOADS)
            return str(folder / name if name else folder)
        return text


def _portable_model(store: EvaluationStore, model: Candidate, is_published: IsPublished) -> Candidate:
    if model.predictions:
        return replace(model, predictions=_upload_file(store, "predictions", Path(model.predictions)))
    if model.source is None:
        return model
    if model.source.kind == "version" and is_published(model.source.version):
        return replace(model, source=replace(model.source, directory=f"{VERSION}{model.source.version}"))
    folder = Path(model.source.directory)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    upload(store, model.id, {name: path for name, path in files.items() if not _is_hidden(name)})
    return replace(model, source=replace(model.source, directory=f"{UPLOAD}{model.id}"))


def _portable_data(store: EvaluationStore, data: DataSet) -> DataSet:
    if data.kind == "file":
        return replace(data, place=_upload_file(store, "rows", Path(data.place)))
    is_folder = data.place and not data.place.startswith(S3)
    return replace(data, place=str(Path(data.place).expanduser().resolve())) if is_folder else data


def _upload_file(store: EvaluationStore, what: str, path: Path) -> str:
    own_id, name = f"{what}-{file_sha256(path)[:12]}", f"{what}{path.suffix}"
    upload(store, own_id, {name: path})
    return f"{UPLOAD}{own_id}/{name}"


def upload(store: EvaluationStore, own_id: str, files: dict[str, Path]) -> None:
    """Store files under an id that follows from their content, unless they are stored already."""
    if store.uploaded(own_id) is not None:
        return
    for name, path in files.items():
        store.upload(own_id, name, path)
    hashes = {name: file_sha256(path) for name, path in files.items()}
    store.store_uploaded(own_id, _FILES.dump_json(hashes))


def download(store: EvaluationStore, own_id: str, cache: Path) -> Path:
    """Return the folder of an upload on this machine; every file has its hash."""
    folder = cache / own_id
    if folder.is_dir():
        return folder
    content = store.uploaded(own_id)
    if content is None:
        raise ArchiveCorrupt(f"the upload {own_id} is missing in the archives; evaluate again")
    draft = cache / f".{uuid.uuid4().hex}"
    try:
        for name, sha256 in _files(own_id, content).items():
            target = draft / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.downloaded(own_id, name) as path:
                if path is None or file_sha256(path) != sha256:
                    raise ArchiveCorrupt(f"{name} of the upload {own_id} is missing or corrupt; remove the upload")
                shutil.copyfile(path, target)
        _move(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _files(own_id: str, content: bytes) -> dict[str, str]:
    try:
        files = _FILES.validate_json(content)
    except ValidationError as error:
        raise ArchiveCorrupt(f"the upload {own_id} has no valid list of files; remove it and evaluate again") from error
    if not all(_is_below(name) for name in files):
        raise ArchiveCorrupt(f"the upload {own_id} names files outside of its folder; remove it and evaluate again")
    return files


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _move(draft: Path, folder: Path) -> None:
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # Another process has downloaded the same.
            raise


def order_identity(task: str, models: Sequence[str], data: Sequence[str], axes: Sequence[str]) -> str:
    """Return a text that identifies what is evaluated: the same evaluation on a cluster is found again by it."""
    return " ".join([task, *sorted(models), "/", *sorted(data), "/", *sorted(axes)])
