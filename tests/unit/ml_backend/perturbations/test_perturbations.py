"""Perturbations: what each edit may change, what it never changes, and that it is deterministic."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_backend.errors import PerturbationInvalid, PerturbationNotFound
from ml_backend.perturbations import (
    Change,
    Draw,
    Edit,
    Text,
    all_edits,
    edits_for,
    edits_version,
    find_edits,
    perturb,
    registry,
)
from ml_backend.perturbations.typing_errors import LOOK_ALIKES, ZERO_WIDTH
from ml_backend.perturbations.word_lists import GENDERED, LABEL_WORDS, NAMES
from ml_backend.perturbations.writing_styles import NEUTRAL_EMOJI
from templates.rows import SeedRow

ADDRESS = "https://example.org/Some.Page"
WORDS = [
    "restaurant", "modern", "Yesterday", "I", "am", "they", "will", "you're", "Aisha", "mother", "She", "her", "not",
    "don't", "GOOD", "terrible", "@someone", ADDRESS, "Größe", "naïve", "1984", "B2B", "été", "Señora", "😀", "café",
    "e\u0301lan", "東京", "كتاب", "ma'am", "Juan", "Mr", "mmmm", "I'll",
]  # fmt: skip
JOINTS = [" ", "  ", ", ", ". ", "! ", "? ", "; ", "\n", "-", " (", ") ", "", "'", "\u200d"]


@st.composite
def written(draw: st.DrawFn) -> str:
    """Texts of words with all kinds of spaces and punctuation, and now and then of any characters."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.text(max_size=60))
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
    return "".join(word + draw(st.sampled_from(JOINTS)) for word in words)


def row(*texts: str, answer: str | None = None, number: int = 1) -> SeedRow:
    fields = {f"text{index}": text for index, text in enumerate(texts)}
    start = texts[0].find(answer) if answer else None
    return SeedRow(f"row-{number}", "held_out", fields, None if answer else "positive", answer, start, {})


def changed(edit: str, *texts: str, protected: Sequence[str] = (), seed: int = 0, language: str = "en") -> list[str]:
    """Return the texts after the edit; unchanged texts if it makes no copy."""
    fields = [f"text{index}" for index in range(len(texts))]
    found = perturb([row(*texts)], [edit], fields=fields, language=language, kind="classification",
                    protected=protected, seed=seed)  # fmt: skip
    return [found[0].fields[name] for name in fields] if found else list(texts)


def without(chars: str) -> Callable[[str], str]:
    return lambda text: "".join(char for char in text if char not in chars)


def lookalikes_as_latin(text: str) -> str:
    return text.translate({ord(other): latin for latin, other in LOOK_ALIKES.items()})


# What stays the same under an edit, computed from the whole texts.
SAME: dict[str, Callable[[str], object]] = {
    "typo_keyboard": lambda text: (len(text), re.sub(r"[^\W\d_]", "x", text)),
    "typo_swap": lambda text: (sorted(text), re.sub(r"[^\W\d_]", "x", text)),
    "typo_drop": lambda text: re.sub(r"[^\W\d_]+", "x", text),
    "ocr": lambda text: re.sub(r"[^\W_]+", "x", text),
    "look_alike": lookalikes_as_latin,
    "zero_width": without(ZERO_WIDTH),
    "split_words": without(" "),
    "lower_case": str.casefold,
    "upper_case": str.casefold,
    "less_punctuation": without(",;:."),
    "more_punctuation": without(",."),
    "whitespace": lambda text: re.sub(r"[ \t\u00a0]+", " ", text),
    "contractions": lambda text: re.sub(r"(am|are|will|have|['’](m|re|ll|ve))\b|\s", "", text, flags=re.I).casefold(),  # noqa: RUF001
    "emoji": lambda text: re.sub(f" (?:{'|'.join(NEUTRAL_EMOJI)})", "", text),
    "names": lambda text: re.sub(r"[^\W\d_]+", "x", text),
    "gender": lambda text: re.sub(r"[^\W\d_]+(?:'am)?", "x", text),
}


@pytest.mark.parametrize("edit", registry.BUILT_IN)
@settings(max_examples=30, deadline=None)
@given(text=written(), seed=st.integers(0, 50))
def test_an_edit_changes_only_the_characters_that_it_declares(edit: str, text: str, seed: int) -> None:
    (after,) = changed(edit, text, seed=seed)
    assert SAME[edit](after) == SAME[edit](text)
    assert changed(edit, text, seed=seed) == [after]


@pytest.mark.parametrize("edit", registry.BUILT_IN)
@settings(max_examples=20, deadline=None)
@given(text=written(), word=st.sampled_from(["restaurant", "Aisha", "mother", "naïve", "modern"]))
def test_protected_words_label_words_and_addresses_stay(edit: str, text: str, word: str) -> None:
    (after,) = changed(edit, text, protected=[word])
    kept = "|".join(
        rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted({word, *LABEL_WORDS["en"]}, key=len, reverse=True)
    )
    # Splitting another word can make one more of them: "Sherestaurant", "She restaurant".
    assert Counter(re.findall(kept, text, re.I)) <= Counter(re.findall(kept, after, re.I))
    assert after.count(ADDRESS) == text.count(ADDRESS)
    for one in (r"(?<!\w)don't(?!\w)", "@someone"):
        assert len(re.findall(one, after)) >= len(re.findall(one, text))


@pytest.mark.parametrize("edit", [edit for edit in registry.BUILT_IN if "qa" in registry.BUILT_IN[edit].kinds])
@settings(max_examples=20, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS[:12]), min_size=4, max_size=14), place=st.integers(0, 3))
def test_the_answer_stays_in_the_passage_and_its_new_place_is_known(edit: str, words: list[str], place: int) -> None:
    passage, answer = " ".join(words), " ".join(words[place : place + 2])
    original = row(passage, f"Where did {answer} go?", answer=answer)
    copies = perturb([original], [edit], fields=["text0", "text1"], language="en", kind="qa")
    for copy in copies:
        assert copy.answer_start is not None
        assert copy.fields["text0"][copy.answer_start :].startswith(answer)
        assert answer in copy.fields["text1"]


@pytest.mark.parametrize("edit", registry.BUILT_IN)
def test_every_edit_changes_a_usual_text_and_differs_by_row_or_is_fixed(edit: str) -> None:
    text = "I am sure that Aisha, my mother, will visit the modern restaurant. Carlos visited the museum yesterday."
    assert changed(edit, text) != [text]
    rows = [row(text, number=number) for number in range(20)]
    copies = perturb(rows, [edit], fields=["text0"], language="en", kind="classification")
    fixed = edit in ("lower_case", "less_punctuation", "contractions")
    assert (len({copy.fields["text0"] for copy in copies}) == 1) == fixed
    # In parts and in another order, the copies are the same.
    again = [perturb([one], [edit], fields=["text0"], language="en", kind="classification") for one in reversed(rows)]
    assert [copy for part in reversed(again) for copy in part] == copies


def test_a_row_that_an_edit_does_not_change_has_no_copy() -> None:
    assert (
        perturb([row("12345")], list(registry.BUILT_IN), fields=["text0"], language="en", kind="classification") == []
    )


@pytest.mark.parametrize(
    ("edit", "text", "expected"),
    [
        ("gender", "She told her sister that he loves him.", "He told his brother that she loves her."),
        ("gender", "The BOY said: it is his. His mother knew.", "The GIRL said: it is hers. Her father knew."),
        ("gender", "I gave her the book; Mr Smith saw her.", "I gave him the book; Mrs Smith saw him."),
        ("gender", "Heather heard the manager.", "Heather heard the manager."),
        ("contractions", "I am late, they are early, he will come.", "I'm late, they're early, he'll come."),
        ("contractions", "They're here. We don't know. it's ours", "They are here. We don't know. it's ours"),
        ("lower_case", "The NASA rover", "the nasa rover"),
        ("less_punctuation", "Well, it cost 3.50: cheap. Really?", "Well it cost 3.50 cheap Really?"),
        ("names", "King Juan Carlos and San Diego", "King Juan Carlos and San Diego"),
    ],
)
def test_edits_of_fixed_texts(edit: str, text: str, expected: str) -> None:
    assert changed(edit, text) == [expected]


def test_names_are_replaced_alike_in_all_texts_and_differently_for_each_person() -> None:
    premise, hypothesis = changed("names", "Aisha saw Fatima. Then Fatima's dog ran.", "Aisha has met Fatima.")
    found = re.fullmatch(r"(\w+) saw (\w+)\. Then (\w+)'s dog ran\.", premise)
    assert found is not None
    assert (found[1] != found[2], found[2] == found[3]) == (True, True)
    assert hypothesis == f"{found[1]} has met {found[2]}."
    women = {name for group, sides in NAMES.items() if group != "arabic" for name in sides["women"]}
    assert {found[1], found[2]} <= women


def test_a_person_keeps_the_name_if_one_mention_must_stay() -> None:
    texts = "Aisha met Carlos.", "Aisha Tyler met Carlos."
    after = changed("names", *texts)
    assert all("Aisha" in text and "Carlos" not in text for text in after)


def test_gender_stays_if_one_of_the_words_is_in_the_answer() -> None:
    original = row("Her father and her mother came.", "Who came?", answer="Her father")
    assert perturb([original], ["gender"], fields=["text0", "text1"], language="en", kind="qa") == []


def test_word_lists_have_no_name_twice_and_no_word_in_two_pairs_by_mistake() -> None:
    names = [name for sides in NAMES.values() for side in sides.values() for name in side]
    assert len(names) == len(set(names)) == 168
    women = [one for one, _ in GENDERED]
    assert len(women) == len(set(women))
    label_words = {word for words in LABEL_WORDS.values() for word in words}
    assert not label_words & {word.lower() for pair in GENDERED for word in pair}


def test_edits_are_chosen_by_axis_language_and_kind() -> None:
    english = {edit.name for edit in edits_for("robustness", language="en-GB", kind="classification")}
    assert english == {name for name, edit in registry.BUILT_IN.items() if edit.axis == "robustness"}
    assert "contractions" not in {edit.name for edit in edits_for("robustness", language="de", kind="classification")}
    assert "upper_case" not in {edit.name for edit in edits_for("robustness", language="en", kind="qa")}
    japanese = edits_for("robustness", language="ja", kind="classification")
    assert {edit.name for edit in japanese} & {"typo_keyboard", "ocr", "lower_case"} == set()
    assert edits_for("fairness", language="de", kind="classification") == ()


@pytest.mark.parametrize("language", ["de", "es"])
def test_label_words_of_other_languages_stay(language: str) -> None:
    text = " ".join(LABEL_WORDS[language])
    for edit in edits_for("robustness", language=language, kind="classification"):
        (after,) = changed(edit.name, text, language=language)
        assert [word for word in re.findall(r"\w+", after) if word in LABEL_WORDS[language]] == text.split()


def test_german_typos_are_next_to_each_other_on_a_german_keyboard() -> None:
    found = {changed("typo_keyboard", "zzzz", language="de", seed=seed)[0] for seed in range(60)}
    letters = {char for text in found for char in text} - {"z"}
    assert letters == set("tugh")


def test_an_unknown_or_unfit_perturbation_is_refused() -> None:
    with pytest.raises(PerturbationNotFound):
        find_edits(["typo_keyboard", "sarcasm"])
    with pytest.raises(PerturbationNotFound):
        perturb([row("text")], ["upper_case"], fields=["text0"], language="en", kind="qa")


def test_the_version_of_edits_follows_their_names_and_versions() -> None:
    first, second = find_edits(["ocr", "emoji"])
    assert edits_version([first, second]) == edits_version([second, first]) != edits_version([first])


def _reverse(texts: Mapping[str, Text], draw: Draw) -> dict[str, list[Change]]:
    return {name: [Change(0, len(text.content), text.content[::-1])] for name, text in texts.items()}


def _is_reverse(before: str, after: str) -> bool:
    return before == after[::-1]


REVERSED = Edit("reversed", "robustness", "Reverses the text.", "Everything.", _reverse, _is_reverse)


def install(monkeypatch: pytest.MonkeyPatch, name: str, edit: object) -> None:
    class Entry:
        def __init__(self) -> None:
            self.name = name

        def load(self) -> object:
            if isinstance(edit, Exception):
                raise edit
            return edit

    def entry_points(group: str) -> list[EntryPoint]:
        return [Entry()] if group == "outfox.perturbations" else []  # type: ignore[list-item]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry.all_edits.cache_clear()


@pytest.fixture(autouse=True)
def _fresh_registry() -> Iterator[None]:
    yield
    registry.all_edits.cache_clear()


def test_another_package_adds_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "reversed", REVERSED)
    assert [*all_edits()][-1] == "reversed"
    assert changed("reversed", "abc") == ["cba"]


@pytest.mark.parametrize("text", ["not abc", "see https://x.org", "abc don't"])
def test_another_packages_edit_cannot_change_protected_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    install(monkeypatch, "reversed", REVERSED)
    with pytest.raises(PerturbationInvalid):
        changed("reversed", text)


@pytest.mark.parametrize(
    "changes",
    [[Change(0, 9, "")], [Change(0, 1, "y"), Change(0, 1, "y")], [Change(0, 1, "z")], [Change(2, 1, "y")]],
)
def test_another_packages_edit_cannot_break_its_own_rules(changes: list[Change]) -> None:
    edit = Edit("own", "robustness", "", "", lambda texts, draw: {"text0": changes}, lambda before, after: after == "y")
    with pytest.raises(PerturbationInvalid):
        perturb([row("xx")], [edit], fields=["text0"], language="en", kind="classification")


@pytest.mark.parametrize(
    ("name", "edit"), [("reversed", "no edit"), ("other", REVERSED), ("broken", ImportError("torn"))]
)
def test_a_wrong_entry_point_is_reported(monkeypatch: pytest.MonkeyPatch, name: str, edit: object) -> None:
    install(monkeypatch, name, edit)
    with pytest.raises(PerturbationInvalid):
        all_edits()


def test_two_edits_of_one_name_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "ocr", registry.BUILT_IN["ocr"])
    with pytest.raises(PerturbationInvalid):
        all_edits()


def test_edits_do_not_compose_or_decompose_characters() -> None:
    text = unicodedata.normalize("NFD", "Die schöne Größe überraschte fröhliche Gäste.")
    (after,) = changed("typo_swap", text, language="de")
    assert unicodedata.normalize("NFD", after) == after
