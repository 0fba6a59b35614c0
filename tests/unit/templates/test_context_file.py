"""Files of contexts: JSONL or CSV in any common form; every mistake is reported with its line."""

import json
from pathlib import Path

import pytest

from templates import find_pack
from templates.context_file import MAX_PROBLEMS, read_context_file
from templates.errors import PackError
from templates.rows import Context

SPEC = find_pack("nli").spec
ALL = ("entailment", "neutral", "contradiction")
LONG = "x" * 200_000
TOO_LONG = "more than 131,072 characters"


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
        # The content decides, not the file's name.
        ("a.txt", '\ufeff\n{"id": 1, "premise": "Dogs, bark.", "targets": ["neutral"], "source": "me"}'),
        ("a.csv", '{"id": "1", "premise": "Dogs, bark.", "targets": ["neutral"], "source": "me"}\n\n'),
    ],
)
def test_every_form_gives_the_same_row(folder: Path, name: str, content: str) -> None:
    assert read(folder, content, name) == [Context("1", {"premise": "Dogs, bark."}, ("neutral",), {"source": "me"})]


@pytest.mark.parametrize(
    "content",
    [
        b"id,premise\rp1,One.\rp2,Two.\r",
        b"\n \r\nid,premise\np1,One.\np2,Two.\n",
        b"\xef\xbb\xbf\r\rid,premise\rp1,One.\rp2,Two.",
        b'{"id": "p1", "premise": "One."}\r{"id": "p2", "premise": "Two."}\r',
    ],
)
def test_any_line_end_and_blank_first_lines_are_accepted(folder: Path, content: bytes) -> None:
    found = read(folder, content)
    assert [(one.id, one.fields["premise"]) for one in found] == [("p1", "One."), ("p2", "Two.")]


def test_line_ends_are_found_across_read_buffers(folder: Path) -> None:
    rows = [f"p{number},{'x' * (number % 977)}." for number in range(3_000)]
    for end in ("\r", "\r\n", "\n"):
        found = read(folder, end.join(["id,premise", *rows]))
        assert [f"{one.id},{one.fields['premise']}" for one in found] == rows


def test_quoted_text_keeps_its_line_ends(folder: Path) -> None:
    (found,) = read(folder, 'premise,id\n"One\rtwo\r\nthree\nfour",a\n')
    assert found.fields == {"premise": "One\rtwo\r\nthree\nfour"}


def test_a_null_id_counts_as_missing(folder: Path) -> None:
    one, two = read(folder, '{"id": null, "premise": "One."}\n{"id": null, "premise": "Two."}\n', "p.jsonl")
    assert one.id.startswith("p-")
    assert one.id != two.id


def test_empty_cells_are_omitted_and_several_targets_are_separated_by_a_bar(folder: Path) -> None:
    found = read(folder, "id,premise,targets,note\na,One.,,\nb,Two.,neutral | entailment,x\n\n")
    assert found == [
        Context("a", {"premise": "One."}, ALL, {}),
        Context("b", {"premise": "Two."}, ("neutral", "entailment"), {"note": "x"}),
    ]


def test_the_id_of_a_row_without_one_does_not_depend_on_its_position(folder: Path) -> None:
    (one, two) = read(folder, "premise\nOne.\nTwo.\n")
    assert one.id != two.id
    assert [row.id for row in read(folder, "premise\nNew.\nTwo.\nOne.\n")][1:] == [two.id, one.id]
    (found,) = problems(folder, "premise\nOne.\nTwo.\nOne.\n")
    assert found.startswith(f':4: id "{one.id}" is also on line 2')


def test_every_mistake_in_a_csv_is_reported_with_its_line(folder: Path) -> None:
    content = 'id,premise,targets\na,,\nb,Two.,maybe\nc,"Over\ntwo lines",\nc,Again.,\n\xff,\nd,One.,,,\ne,"Open\n'
    found = problems(folder, content.encode("latin-1"))
    assert [line.split(";")[0] for line in found] == [
        ":2: has no text in `premise`",
        ':3: targets is ["maybe"]',
        ':6: id "c" is also on line 4, or its text is',
        ":7: is not UTF-8",
        ":8: has 5 cells for 3 columns",
        ":9: is not valid CSV (unexpected end of data)",
    ]
    assert all(";" in line for line in found)


def test_invisible_characters_do_not_count_as_text(folder: Path) -> None:
    found = [problems(folder, "premise\n\u200b\n"), problems(folder, r'{"premise": "\u200b\u2060"}', "p.jsonl")]
    assert found == [[":2: has no text in `premise`; add it"], [":1: has no text in `premise`; add it"]]


def test_a_repeated_id_is_reported_next_to_other_mistakes_of_its_row(folder: Path) -> None:
    content = "id,premise,targets\na,One.,\na,Two.,maybe\nb,,\nb,Three.,\n"
    found = problems(folder, content)
    assert [line.split(";")[0] for line in found] == [
        ':3: targets is ["maybe"]',
        ':3: id "a" is also on line 2, or its text is',
        ":4: has no text in `premise`",
        ':5: id "b" is also on line 4, or its text is',
    ]


def test_every_mistake_in_a_jsonl_is_reported_with_its_line(folder: Path) -> None:
    rows = [
        '{"premise": 3}', "[1]", '{"premise": "a", "@mine": 1}', r'{"premise": "a\u0000"}', "nope", '{"premise": NaN}',
        r'{"premise": "\ud800"}', '{"id": "c@0123456789ab", "premise": "x"}', '{"id": " ", "premise": "x"}',
        '{"id": "' + "x" * 181 + '", "premise": "x"}', '{"premise": "' + "x" * 20_001 + '"}',
        '{"premise": "x", "targets": []}', '{"premise": "x", "targets": [["neutral"]]}',
    ]  # fmt: skip
    found = problems(folder, "\n".join(rows), "p.jsonl")
    assert [line.split(":")[1] for line in found] == [str(number) for number in range(1, len(rows) + 1)]
    assert all(";" in line for line in found)


@pytest.mark.parametrize("char", ["\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e"])
def test_control_characters_in_an_id_are_refused(folder: Path, char: str) -> None:
    rows = [{"id": "a", "premise": "One."}, {"id": f"b{char}c", "premise": "Two.\nAnd more."}]
    (found,) = problems(folder, "\n".join(map(json.dumps, rows)), "p.jsonl")
    assert found.startswith(f":2: the id contains the character {json.dumps(char)}")


def test_an_id_of_two_lines_is_refused_and_any_script_is_accepted(folder: Path) -> None:
    (found,) = problems(folder, 'id,premise\na,One.\n"b\nc",Two.\n')
    assert found.startswith(':3: the id contains the character "\\n"')
    content = "id,premise\nnaïve id-1,One.\nक्\u200dष,Two.\n"
    assert [one.id for one in read(folder, content)] == ["naïve id-1", "क्\u200dष"]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("", "", "has no contexts"),
        ("premise\n", "", "has no contexts"),
        ("text,id\nx,1\n", ":1", "no column `premise`"),
        ("premise,premise\nx,1\n", ":1", "the same name"),
        ('[{"premise": "x"}]', ":1", "JSON list"),
        ("premise\nx\n".encode("utf-16"), "", "UTF-8"),
        (b"pr\xe9mise,premise\nOne.,Two.\n", ":1", "UTF-8"),
        ("x" * 1_000_001 + "\npremise\nOne.\n", ":1", "longer than 1,000,000 bytes"),
        (f"premise,{LONG}\nOne.,x\n", ":1", TOO_LONG),
        (f"premise,note\nOne.,{LONG}\n", ":2", TOO_LONG),
        ('premise\n"One.\n' + "Two.\n" * 40_000, ":2", TOO_LONG),
        ('{"premise": "One.", "premise": "Two."}\n', ":1", "`premise` twice"),
        ('{"premise": "One.", "n": {"a": 1, "a": 1}}\n', ":1", "`a` twice"),
        ('{"premise": "One."}\n{"premise": "Two.", "n": 1e400}\n', ":2", "1e400"),
        ('{"premise": "One.", "n": ' + "9" * 5_000 + "}", ":1", "9999"),
        ('{"premise": "One.", "n": NaN}', ":1", "NaN"),
        ("premise\n" + "x" * 1_000_001 + "\n", ":2", "longer than 1,000,000 bytes"),
    ],
    ids=lambda one: repr(one)[:60],
)
def test_a_file_that_cannot_be_read_has_one_problem(
    folder: Path, content: str | bytes, line: str, problem: str
) -> None:
    (found,) = problems(folder, content)
    assert found.startswith(f"{line}: ")
    assert problem in found


def test_reading_stops_after_many_mistakes(folder: Path) -> None:
    found = problems(folder, "premise,id\n" + ",x\n" * 1_000)
    assert len(found) == MAX_PROBLEMS + 1
    assert "more mistakes" in found[-1]


def test_no_context_is_returned_after_the_first_mistake(folder: Path) -> None:
    (folder / "p.csv").write_text("premise\nOne.\n \nTwo.\n", encoding="utf-8")
    reading = read_context_file(folder / "p.csv", SPEC)
    assert next(reading).fields == {"premise": "One."}
    with pytest.raises(PackError, match=r"p\.csv:3"):
        next(reading)
