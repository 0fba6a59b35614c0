"""The notebook of the repository runs, and its stored outputs are those of the rounds beside it."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import outfox

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOTEBOOK = EXAMPLES / "rounds.ipynb"


def outputs(notebook: Any) -> list[Any]:
    """Return what the code cells printed or returned, each as its type and its text; pictures by type only."""
    return [
        [(name, "" if name == "image/png" else text) for name, text in _contents(output)]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def _contents(output: Any) -> list[tuple[str, str]]:
    if output.output_type == "stream":
        return [("stream", output.text)]
    return sorted((name, text) for name, text in output.data.items() if name in ("text/plain", "image/png"))


def test_the_notebook_runs_and_shows_what_it_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Any = nbformat.read
    stored, executed = (read(NOTEBOOK, as_version=4) for _ in range(2))
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    NotebookClient(executed, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    assert outputs(executed) == outputs(stored), "run `jupyter execute --inplace examples/rounds.ipynb`"
    assert any(name == "image/png" for output in outputs(stored) for name, _ in output)


def test_nothing_that_is_shipped_names_a_machine() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.suffix in (".json", ".jsonl", ".ipynb")]
    assert len(files) > 10
    for path in files:
        text = path.read_text("utf-8")
        assert [word for word in ("/home/", "/root/", "/Users/", str(EXAMPLES.parent)) if word in text] == []
    # A picture is most of the notebook; the archives are small.
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) < 1_000_000


def test_the_shipped_rounds_say_that_their_workers_are_simulated(tmp_path: Path) -> None:
    data = outfox.open("sentiment", path=EXAMPLES / "rounds", verify=True)
    people = {*data.examples()["author"], *data.votes()["worker"], *data.attempts()["worker"]}
    assert {name.startswith("simulated-") for name in people} == {True}
    card = data.export("datasets", tmp_path / "data")[-1].read_text("utf-8")
    assert "No people took part" in card
    assert json.loads((EXAMPLES / "rounds" / "sentiment" / "round-1" / "manifest.json").read_text())["spec"][
        "data_licence"
    ]
