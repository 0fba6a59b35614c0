"""Files of contexts: JSONL or CSV, read as they are meant, and every mistake told with its line and cure."""

from pathlib import Path

import pytest

from templates import find_pack
from templates.context_file import MOST_PROBLEMS, read_context_file
from templates.errors import PackError
from templates.rows import Context

SPEC = find_pack("nli").spec
ALL = ("entailment", "neutral", "contradiction")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(folder: Path, content: str | bytes, name: str = "premises.csv") -> list[Context]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_context_file(folder / name, SPEC))


def problems(folder: Path, content: str | bytes, name: str = "premises.csv") -> list[str]:
    with pytest.raises(PackError) as caught:
        read(folder, content, name)
    return [str(problem).removeprefix(name) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"id": "1", "premise": "Dogs, bark.", "targets": ["neutral"], "source": "me"}\n'),
        ("a.csv", 'id,premise,targets,source\n1,"Dogs, bark.",neutral,me\n'),
        ("a.csv", '\ufeffid;premise;targets;source\r\n1;"Dogs, bark.";neutral;me\r\n'),
        ("a.tsv", "source\tpremise\tid\ttargets\nme\tDogs, bark.\t1\tneutral"),
        # What it holds counts for more than what it is called.
        ("a.txt", '\ufeff\n{"id": 1, "premise": "Dogs, bark.", "targets": ["neutral"], "source": "me"}'),
        ("a.csv", '{"id": "1", "premise": "Dogs, bark.", "targets": ["neutral"], "source": "me"}\n\n'),
    ],
)
def test_the_same_row_is_read_from_every_form(folder: Path, name: str, content: str) -> None:
    assert read(folder, content, name) == [Context("1", {"premise": "Dogs, bark."}, ("neutral",), {"source": "me"})]


def test_what_a_csv_leaves_empty_is_not_there_and_several_targets_have_a_bar_between_them(folder: Path) -> None:
    found = read(folder, "id,premise,targets,note\na,One.,,\nb,Two.,neutral | entailment,x\n\n")
    assert found == [
        Context("a", {"premise": "One."}, ALL, {}),
        Context("b", {"premise": "Two."}, ("neutral", "entailment"), {"note": "x"}),
    ]


def test_a_row_without_an_id_has_the_same_one_wherever_it_stands(folder: Path) -> None:
    (one, two) = read(folder, "premise\nOne.\nTwo.\n")
    assert one.id != two.id
    assert [row.id for row in read(folder, "premise\nNew.\nTwo.\nOne.\n")][1:] == [two.id, one.id]
    assert problems(folder, "premise\nOne.\nTwo.\nOne.\n") == [
        f":4: id '{one.id}' is also on line 2, or its text is; give each row its own"
    ]


def test_every_mistake_of_a_csv_is_told_with_its_line(folder: Path) -> None:
    content = 'id,premise,targets\na,,\nb,Two.,maybe\nc,"Over\ntwo lines",\nc,Again.,\n\xff,\nd,One.,,,\ne,"Open\n'
    found = problems(folder, content.encode("latin-1"))
    assert [line.split(";")[0] for line in found] == [
        ":2: has no text in `premise`",
        ":3: targets is ['maybe']",
        ":6: id 'c' is also on line 4, or its text is",
        ":7: is not UTF-8",
        ":8: has 5 cells for 3 columns",
        ":9: cannot be read as CSV (unexpected end of data)",
    ]
    assert all(";" in line for line in found)


def test_every_mistake_of_a_jsonl_is_told_with_its_line(folder: Path) -> None:
    rows = [
        '{"premise": 3}', "[1]", '{"premise": "a", "@mine": 1}', r'{"premise": "a\u0000"}', "nope", '{"premise": NaN}',
        r'{"premise": "\ud800"}', '{"id": "c@0123456789ab", "premise": "x"}', '{"id": " ", "premise": "x"}',
        '{"id": "' + "x" * 181 + '", "premise": "x"}', '{"premise": "' + "x" * 20_001 + '"}',
        '{"premise": "x", "targets": []}', '{"premise": "x", "targets": [["neutral"]]}',
    ]  # fmt: skip
    found = problems(folder, "\n".join(rows), "p.jsonl")
    assert [line.split(":")[1] for line in found] == [str(number) for number in range(1, len(rows) + 1)]
    assert all(";" in line for line in found)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", ": has no contexts; add rows"),
        ("premise\n", ": has no contexts; add rows"),
        ("text,id\nx,1\n", ":1: the first line has no column `premise`; name the columns there: premise, and id"),
        ("premise,premise\nx,1\n", ":1: two columns have one name; rename one"),
        ('[{"premise": "x"}]', ":1: is one JSON list; write one object per line"),
        ("premise\nx\n".encode("utf-16"), ": is not UTF-8; save the file as UTF-8"),
        ("premise\n" + "x" * 1_000_001 + "\n", ":2: is longer than 1,000,000 bytes; shorten the row"),
    ],
)
def test_a_file_that_is_no_such_file_is_told_so(folder: Path, content: str | bytes, told: str) -> None:
    (found,) = problems(folder, content)
    assert found.startswith(told)


def test_after_many_mistakes_it_says_that_there_may_be_more(folder: Path) -> None:
    found = problems(folder, "premise,id\n" + ",x\n" * 1_000)
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1] == ": there may be more; mend these first"


def test_nothing_comes_out_after_the_first_mistake(folder: Path) -> None:
    (folder / "p.csv").write_text("premise\nOne.\n \nTwo.\n", encoding="utf-8")
    reading = read_context_file(folder / "p.csv", SPEC)
    assert next(reading).fields == {"premise": "One."}
    with pytest.raises(PackError, match=r"p\.csv:3"):
        next(reading)
