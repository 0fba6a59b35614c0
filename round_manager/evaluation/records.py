"""Evaluations in the archives: what is known of the models on a frozen round is written into the archive's folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.evaluation.resources import MEMORY, MIB
from ml_backend.evaluation.speed import THROUGHPUT
from ml_backend.manifest import CARD
from outfox.errors import DataCorrupt
from outfox.evaluation_records import NAME, read_record, written_record
from outfox.intervals import bootstrap
from outfox.stored_evaluations import newest_data
from round_manager.archive.files import REPAIR
from round_manager.archive.reader import open_source
from round_manager.errors import ArchiveNotFound
from round_manager.evaluation.storage import EvaluationStore, data_folders, open_evaluations, open_files
from round_manager.learning.versions import stored_scores
from round_manager.models import Evaluation, ModelVersion, Round

PERFORMANCE = "performance"
Row = Mapping[str, Any]


def keep_record(uri: str, rows: Iterable[Row], card: Mapping[str, str] | None = None) -> bool:
    """Add figures and the newest model's card to an archive's record; return whether it has changed.

    Figures replace those of the same model on the same axis. Without an archive at this address, nothing is written.
    """
    try:
        manifest = open_source(uri).manifest()
    except ArchiveNotFound:
        return False
    files = open_files(uri)
    before = files.read(NAME)
    kept, card_before = _read(before, uri, manifest.sha256)
    new = list(rows)
    replaced = {(row["model_id"], row["axis"]) for row in new}
    merged = [*new, *(row for row in kept if (row["model_id"], row["axis"]) not in replaced)]
    if not merged and not (card or card_before):
        return False
    about = {"task": manifest.task, "round": manifest.round}
    content = written_record(about, manifest.sha256, merged, card or card_before)
    if content == before:
        return False
    files.write(NAME, content)
    return True


def _read(content: bytes | None, uri: str, archive: str) -> tuple[Sequence[Row], Mapping[str, str]]:
    if content is None:
        return (), {}
    try:
        found = read_record(content, f"{uri}/{NAME}", archive, REPAIR)
    except DataCorrupt:
        return (), {}  # It is written again, from what is known here.
    return found["results"], found["model_card"]


def stored_rows(uri: str, number: int) -> list[Row]:
    """Return the figures on a round that `outfox evaluate` has stored next to its archive."""
    place, task, _ = uri.rstrip("/").rsplit("/", 2)
    store = open_evaluations(place, task)
    keys = store.keys()
    described = {folder: store.data_set(folder) or {} for folder in data_folders(keys)}
    named = {folder: about for folder, about in described.items() if about.get("name") == f"round {number}"}
    folders = newest_data(named) if named else []
    return [row for key in keys if key.endswith(".json") for row in _stored(store, key, folders, number)]


def _stored(store: EvaluationStore, key: str, folders: Sequence[str], number: int) -> Iterator[Row]:
    folder, _, rest = key.partition("/")
    model, _, file = rest.partition("/")
    if folder not in folders or not file:
        return
    result = store.result(folder, model, file.removesuffix(".json")) or {}
    name = (store.model(model) or {}).get("name", model)
    for value in result.get("values", ()):
        yield {"model": name, "model_id": model, "data": f"round {number}", "axis": result["axis"], **value}


def measured_rows(session: Session, round: Round) -> list[Row]:
    """Return the figures on a round's held-out rows that trainings have measured."""
    wanted = select(Evaluation, ModelVersion.name).join(ModelVersion, ModelVersion.id == Evaluation.model_version_id)
    found = session.execute(wanted.where(Evaluation.round_id == round.id).order_by(Evaluation.id)).all()
    return [row for evaluation, version in found for row in _measured(evaluation, version, round.number)]


def _measured(evaluation: Evaluation, version: str, number: int) -> Iterator[Row]:
    about = {"model": version, "model_id": version, "data": f"round {number}", "slice": "", "n": evaluation.row_count}
    scores = stored_scores(evaluation)
    low, high = bootstrap(scores) if scores else (None, None)
    interval = {"low": None if low is None else 100 * low, "high": None if high is None else 100 * high}
    metrics = {evaluation.metric: 100 * evaluation.performance}
    others = {name: evaluation.details.get(name) for name in ("macro_f1", "exact_match")}
    yield {**about, "axis": PERFORMANCE, "metric": evaluation.metric, "value": metrics[evaluation.metric], **interval}
    for name, value in others.items():
        if value is not None:
            yield {**about, "axis": PERFORMANCE, "metric": name, "value": value}
    if evaluation.rows_per_second is not None:
        repeats = evaluation.details.get("rows_per_second") or [None]
        speed = {"value": evaluation.rows_per_second, "low": min(repeats), "high": max(repeats)}
        yield {**about, "axis": THROUGHPUT, "metric": "rows_per_second", **speed}
    if evaluation.memory_bytes is not None:
        yield {**about, "axis": MEMORY, "metric": "memory_mb", "value": evaluation.memory_bytes / MIB}


def newest_card(session: Session, task_id: int) -> dict[str, str] | None:
    """Return the version and text of the newest model's card; None if its folder cannot be read from here."""
    newest = session.scalar(
        select(ModelVersion).where(ModelVersion.task_id == task_id).order_by(ModelVersion.id.desc()).limit(1)
    )
    content = open_files(newest.uri).read(CARD) if newest and CARD in newest.files else None
    if newest is None or content is None or sha256(content).hexdigest() != newest.files[CARD]:
        return None
    return {"version": newest.name, "text": content.decode("utf-8", "replace")}
