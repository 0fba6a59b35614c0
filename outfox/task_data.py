"""A task's frozen rounds, opened once and read in several ways."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from outfox import arguments
from outfox.archives import ArchiveFolder, RoundSource, open_rounds
from outfox.errors import InvalidArgument
from outfox.exports import checked_target, export_frame
from outfox.frames import read_chunks, read_table, values_of
from outfox.round_metrics import round_metrics
from outfox.stored_evaluations import tidy

# The columns of `models` that contain JSON.
MODEL_JSON = ("files", "data", "settings", "metrics")
COLUMNS = ["round", "status", "fooled", "split", "author", "tries", "active_ms"]


class TaskData:
    """The frozen rounds of one task. `outfox.open` makes it.

    The rounds are looked up once; call `outfox.open` again to see rounds that were frozen since.
    """

    def __init__(self, task: str, source: RoundSource, rounds: list[int] | None, *, verify: bool) -> None:
        self.task = task
        self._source = source
        self._verify = verify
        self._rounds = open_rounds(source, task, rounds)

    def __repr__(self) -> str:
        return f"<outfox.TaskData {self.task}, rounds {self.rounds}, at {self._source}>"

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that are read, in this order."""
        return [one.number for one in self._rounds]

    def examples(self, columns: arguments.Columns = None) -> pd.DataFrame:
        """Return the examples, one row each. Reading a few columns is much faster than reading all of them."""
        return self._table("examples", columns)

    def iter_examples(self, columns: arguments.Columns = None, *, chunk: int = 100_000) -> Iterator[pd.DataFrame]:
        """Return the same examples in frames of at most `chunk` rows, for rounds that do not fit into memory."""
        size = arguments.checked_chunk(chunk)
        return read_chunks("examples", self._rounds, arguments.checked_columns(columns), size, verify=self._verify)

    def votes(self, columns: arguments.Columns = None) -> pd.DataFrame:
        """Return the votes, one row each: `example` is the `id` of the example, `worker` the validator."""
        return self._table("votes", columns)

    def attempts(self, columns: arguments.Columns = None) -> pd.DataFrame:
        """Return every question that workers put to the models, including those that did not become an example."""
        return self._table("attempts", columns)

    def contexts(self, columns: arguments.Columns = None) -> pd.DataFrame:
        """Return what workers were shown: `id` is the `context` of the examples."""
        return self._table("contexts", columns)

    def models(self) -> pd.DataFrame:
        """Return the model versions of each round, with their hashes and their training data."""
        frame = self._table("models", None)
        with values_of("models", self._rounds[-1], verify=self._verify):
            for name in MODEL_JSON:
                frame[name] = [json.loads(text) for text in frame[name]]
        return frame

    def evaluations(self) -> pd.DataFrame:
        """Return the figures of models on the rounds' held-out rows that the archives have, as `outfox.evaluate` does.

        They are measured after a round was frozen, so archives of the same round can have more of them later.
        """
        records = (one.record() for one in self._rounds)
        return tidy(row for record in records if record for row in record["results"])

    def model_card(self) -> str:
        """Return the card of the newest model that the last round's archive has (Markdown); empty if it has none."""
        record = self._rounds[-1].record()
        return str(record["model_card"].get("text", "")) if record else ""

    def metrics(self) -> pd.DataFrame:
        """Return how often the models were fooled: one row per round, with 95 % Wilson intervals.

        `mer` (model error rate) is fooled / collected and `vmer` (validated model error rate) is verified and fooled /
        collected. Withdrawn and unconfirmed examples do not count as collected. `author_seconds_per_verified` is the
        authors' active time on collected examples / verified examples. It leaves out validation and skipped or
        withdrawn work, which `outfox round metrics` includes. Of rounds that are `imported`, the rates are those of the
        examples of which it is known whether they fooled a model.
        """
        rows = []
        for one in sorted(self._rounds, key=lambda files: files.number):
            examples = read_table("examples", [one], COLUMNS, verify=self._verify)
            with values_of("examples", one, verify=self._verify):
                imported = bool(one.manifest.get("origin"))
                rows.append({"round": one.number, **round_metrics(examples), "imported": imported})
        return pd.DataFrame(rows)

    def export(self, form: str, to: str | Path, *, unchecked: bool = False) -> list[Path]:
        """Write the examples that have a split as files of another form, and return the files; see `outfox.export`."""
        checked_form, folder = checked_target(form, to)
        return export_frame(
            self.examples(), checked_form, folder, unchecked=arguments.checked_flag("unchecked", unchecked)
        )

    def _table(self, table: str, columns: Any) -> pd.DataFrame:
        return read_table(table, self._rounds, arguments.checked_columns(columns), verify=self._verify)


def open_task_data(
    task: Any, path: Any, url: Any, token: Any, rounds: arguments.Rounds, *, verify: Any, cache_bytes: int
) -> TaskData:
    """Check the arguments, then look up the rounds."""
    name, numbers, checked = (
        arguments.checked_task(task),
        arguments.checked_rounds(rounds),
        arguments.checked_verify(verify),
    )
    if (path is None) == (url is None):
        raise InvalidArgument("pass either `path`, a folder of archives, or `url`, the address of an Outfox server")
    if path is not None:
        return TaskData(name, ArchiveFolder(path), numbers, verify=checked)
    # requests takes a while to import, and a folder is read without it.
    from outfox.server import ArchiveServer

    return TaskData(name, ArchiveServer(url, token, cache_bytes), numbers, verify=checked)
