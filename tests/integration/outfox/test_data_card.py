"""The data card of an export: what Hugging Face and a reader find in README.md."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt
from markdown_it.token import Token

import outfox
from outfox.round_metrics import krippendorff_alpha
from round_manager.validation.voted_examples import Agreement

HOSTILE = (
    "Evil\n---\nlicense: mit\n# Heading <script>alert(1)</script> [x](https://evil.example) ![y](z) `a` | b "
    "https://evil.example www.evil.example a@evil.example <b>*bold*</b> &lt; \ud800 \u2028 \x07 ```"
)


def card_of(frame: pd.DataFrame, folder: Path, form: str = "datasets") -> tuple[dict[str, Any], dict[str, str]]:
    """Export a frame; return what Hugging Face reads of its card, and the text of its sections by heading."""
    text = outfox.export(frame, form, folder)[-1].read_text("utf-8")
    read: Any = DatasetCard(text)
    _, *sections = re.split(r"(?m)^## ", read.text)
    return read.data.to_dict(), {one.partition("\n")[0]: one.partition("\n")[2] for one in sections}


def restated(frame: pd.DataFrame, change: Callable[[dict[str, Any]], object]) -> pd.DataFrame:
    """Return the frame with what its archives state changed."""
    rounds = json.loads(frame.attrs["outfox"]["rounds"])
    for one in rounds:
        change(one)
    changed = frame.copy()
    changed.attrs = {"outfox": {**frame.attrs["outfox"], "rounds": json.dumps(rounds)}}
    return changed


def tokens(text: str) -> list[Token]:
    """Return everything that a renderer finds in a page."""
    parser = MarkdownIt("commonmark").enable("table")
    return [inner for token in parser.parse(text) for inner in (token, *(token.children or ()))]


def test_hugging_face_finds_what_the_archives_state(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    data = card_of(df, tmp_path)[0]
    assert (data["pretty_name"], data["language"]) == ("Fool the sentiment model", ["en"])
    assert (data["task_categories"], data["size_categories"]) == (["text-classification"], ["n<1K"])
    # The packs state no licence for what others collect with them.
    assert "license" not in data
    assert [one["split"] for one in data["configs"][0]["data_files"]] == ["held_out", "train"]


@pytest.mark.parametrize(
    ("licence", "expected"),
    [("CC-BY-4.0", {"license": "cc-by-4.0"}), ("Ours 1", {"license": "other", "license_name": "Ours 1"})],
)
def test_a_stated_licence_is_in_the_card(
    archives: Path, tmp_path: Path, licence: str, expected: dict[str, str]
) -> None:
    df = restated(outfox.load("sentiment", path=archives), lambda one: one["spec"].update(data_licence=licence))
    card, sections = card_of(df, tmp_path)
    assert expected.items() <= card.items()
    assert "not stated" not in sections["Licence"]


def test_the_card_has_the_figures_of_outfox_metrics(archives: Path, tmp_path: Path) -> None:
    _, sections = card_of(outfox.load("sentiment", path=archives), tmp_path)
    rows = {row[0]: row for row in _table(sections["Figures"])}
    for row in outfox.metrics("sentiment", path=archives).to_dict("records"):
        found = rows[str(row["round"])]
        assert found[1:4] == [str(row[name]) for name in ("collected", "fooled", "verified_fooling")]
        assert found[5].startswith(f"{100 * row['vmer']:.1f} % ({100 * row['vmer_low']:.1f} % to ")
    split = outfox.load("sentiment", path=archives)["split"].value_counts()
    assert {name: rows[f"`{name}`"][1] for name in split.index} == {name: str(many) for name, many in split.items()}


def test_every_exported_column_has_a_type_and_a_meaning(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives).assign(mine=1)
    _, sections = card_of(df, tmp_path)
    rows = {row[0].strip("`"): row for row in _table(sections["Columns"])[1:]}
    assert list(rows) == [str(name) for name in df.columns]
    assert all(len(row) == 3 and row[1] and row[2] for row in rows.values())
    assert rows["votes"][1] == "`list<struct>`"
    assert "Prompt sentence" in rows["prompt"][2]


def test_a_part_of_a_round_has_no_error_rates(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    _, sections = card_of(df[df["status"] == "verified"], tmp_path)
    (first, *_) = [row for row in _table(sections["Figures"]) if row[0] == "1"]
    assert first[1:] == ["not stated"] * 7
    assert "25 of the archive's 40 examples" in sections["Known limits"]


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_an_archive_that_states_little_has_a_card(archives: Path, tmp_path: Path, task: str) -> None:
    def forget(one: dict[str, Any]) -> None:
        for name in set(one) - {"round", "spec"}:
            one[name] = None
        one["spec"] = {"labels": 5, "fields": [None], "validation": [], "languages": {"a": 1}, "description": 3}

    df = outfox.load(task, path=archives)
    card, sections = card_of(restated(df, forget), tmp_path)
    assert card["pretty_name"] == task
    assert "not stated" in sections["Licence"]
    del df.attrs["outfox"]["rounds"]
    assert "not stated" in card_of(df, tmp_path)[1]["Licence"]


def test_simulated_workers_are_marked(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", rounds=1, path=archives)
    assert "simulated" not in card_of(df, tmp_path)[0]["tags"]
    # Three of six authors are simulated, and no validator.
    some = sorted(df["author"].unique())[:3]
    mixed = df.assign(author=df["author"].map(lambda name: f"simulated-{name}" if name in some else name))
    card, sections = card_of(mixed, tmp_path)
    assert "simulated" in card["tags"]
    assert _table(sections["Who wrote and judged it"])[1][1:3] == ["6", "3"]


def test_a_hostile_archive_adds_nothing_to_its_card(archives: Path, tmp_path: Path) -> None:
    def attack(one: dict[str, Any]) -> None:
        one["spec"].update(dict.fromkeys(("title", "description", "author", "licence", "data_licence"), HOSTILE))
        one["spec"]["languages"] = [HOSTILE]
        one["spec"]["labels"] = [{"name": HOSTILE, "title": HOSTILE, "hint": HOSTILE}]
        one["spec"]["fields"] = [{"name": "text", "title": HOSTILE, "role": HOSTILE}]
        one["spec"]["validation"] = {"policy": HOSTILE, "description": HOSTILE}
        one["spec"]["fooled"] = {"rule": HOSTILE}
        one["models"] = [{"version": HOSTILE}]
        one["splits"] = {"note": HOSTILE}
        one["written_by"] = {"outfox": HOSTILE}
        one["sha256"] = one["opened_at"] = HOSTILE

    df = outfox.load("sentiment", path=archives)
    honest, _ = card_of(df, tmp_path / "honest")
    hostile_rows = df.assign(source=HOSTILE.replace("\ud800", ""), mine=1).rename(columns={"mine": "<b>|`x`"})
    hostile_rows.attrs = df.attrs
    card, _ = card_of(restated(hostile_rows, attack), tmp_path / "hostile")
    text = (tmp_path / "hostile" / "README.md").read_text("utf-8").split("\n---\n", 1)[1]
    # Only the licence is new, which the honest archives do not state.
    assert card.keys() == {*honest, "license", "license_name"}
    assert card["license"] == "other"
    found = tokens(text)
    interpreted = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open"}
    assert interpreted & {one.type for one in found} == set()
    # Some renderers make links of addresses that are not escaped.
    assert not re.search(r"https?://|www\.|[^\\\\]@", text)
    assert [one.tag for one in found if one.type == "heading_open"] == ["h1", *["h2"] * 7]
    assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(("task", "form"), [("nli", "anli"), ("sentiment", "dynasent")])
def test_hugging_face_loads_json_lines_by_their_card(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, form: str
) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    import datasets

    df = outfox.load(task, rounds=1, path=archives)
    card, sections = card_of(df, tmp_path / "data", form)
    loaded = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(part) for name, part in loaded.items()} == df["split"].value_counts().to_dict()
    assert [row[0].strip("`") for row in _table(sections["Columns"])[1:]] == list(loaded["train"].column_names)
    assert "license" not in card


def test_the_card_of_squad_files_names_their_keys(archives: Path, tmp_path: Path) -> None:
    card, sections = card_of(outfox.load("qa", path=archives), tmp_path, "squad")
    assert card["task_categories"] == ["question-answering"]
    assert "answer_start" in sections["Columns"]


def test_agreement_is_that_of_the_round_metrics() -> None:
    votes = [["a", "a", "b"], ["b", "b"], ["c"], ["a", "c", "c", "b"], []]
    reference = Agreement()
    for one in votes:
        reference.add(one)
    assert krippendorff_alpha(votes) == reference.alpha
    assert krippendorff_alpha([["a", "a"], ["a"]]) is None


def _table(section: str) -> list[list[str]]:
    """Return the cells of all tables of a section, their heads included."""
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|-")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
