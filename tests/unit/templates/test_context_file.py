"""Files of contexts: JSONL or CSV, read as they are meant, and every mistake told with its line and cure."""

import json
from pathlib import Path

import pytest

from templates import find_pack
from templates.context_file import MOST_PROBLEMS, read_context_file
from templates.errors import PackError
from templates.rows import Context

SPEC = find_pack("nli").spec
ALL = ("entailment", "neutral", "contradiction")
LONG = "x" * 200_000
TOO_LONG = "has a cell of more than 131,072 characters; shorten it, or close the quote that it begins with"


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


@pytest.mark.parametrize(
    "content",
    [
        b"id,premise\rp1,One.\rp2,Two.\r",
        b"\n \r\nid,premise\np1,One.\np2,Two.\n",
        b"\xef\xbb\xbf\r\rid,premise\rp1,One.\rp2,Two.",
        b'{"id": "p1", "premise": "One."}\r{"id": "p2", "premise": "Two."}\r',
    ],
)
def test_line_ends_of_old_computers_and_blank_first_lines_are_read(folder: Path, content: bytes) -> None:
    found = read(folder, content)
    assert [(one.id, one.fields["premise"]) for one in found] == [("p1", "One."), ("p2", "Two.")]


def test_a_line_end_is_one_wherever_the_file_is_cut_to_read_it(folder: Path) -> None:
    rows = [f"p{number},{'x' * (number % 977)}." for number in range(3_000)]
    for end in ("\r", "\r\n", "\n"):
        found = read(folder, end.join(["id,premise", *rows]))
        assert [f"{one.id},{one.fields['premise']}" for one in found] == rows


def test_a_text_in_quotes_keeps_its_own_line_ends(folder: Path) -> None:
    (found,) = read(folder, 'premise,id\n"One\rtwo\r\nthree\nfour",a\n')
    assert found.fields == {"premise": "One\rtwo\r\nthree\nfour"}


def test_an_id_that_is_null_is_none(folder: Path) -> None:
    one, two = read(folder, '{"id": null, "premise": "One."}\n{"id": null, "premise": "Two."}\n', "p.jsonl")
    assert one.id.startswith("p-")
    assert one.id != two.id


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
        f':4: id "{one.id}" is also on line 2, or its text is; give each row its own'
    ]


def test_every_mistake_of_a_csv_is_told_with_its_line(folder: Path) -> None:
    content = 'id,premise,targets\na,,\nb,Two.,maybe\nc,"Over\ntwo lines",\nc,Again.,\n\xff,\nd,One.,,,\ne,"Open\n'
    found = problems(folder, content.encode("latin-1"))
    assert [line.split(";")[0] for line in found] == [
        ":2: has no text in `premise`",
        ':3: targets is ["maybe"]',
        ':6: id "c" is also on line 4, or its text is',
        ":7: is not UTF-8",
        ":8: has 5 cells for 3 columns",
        ":9: cannot be read as CSV (unexpected end of data)",
    ]
    assert all(";" in line for line in found)


def test_a_context_in_which_nothing_can_be_seen_is_no_text(folder: Path) -> None:
    found = [problems(folder, "premise\n\u200b\n"), problems(folder, r'{"premise": "\u200b\u2060"}', "p.jsonl")]
    assert found == [[":2: has no text in `premise`; add it"], [":1: has no text in `premise`; add it"]]


def test_an_id_that_comes_twice_is_told_beside_another_mistake_of_its_row(folder: Path) -> None:
    content = "id,premise,targets\na,One.,\na,Two.,maybe\nb,,\nb,Three.,\n"
    found = problems(folder, content)
    assert [line.split(";")[0] for line in found] == [
        ':3: targets is ["maybe"]',
        ':3: id "a" is also on line 2, or its text is',
        ":4: has no text in `premise`",
        ':5: id "b" is also on line 4, or its text is',
    ]


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


@pytest.mark.parametrize("sign", ["\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e"])
def test_an_id_that_no_line_of_text_could_show_is_refused_with_its_line(folder: Path, sign: str) -> None:
    rows = [{"id": "a", "premise": "One."}, {"id": f"b{sign}c", "premise": "Two.\nAnd more."}]
    (found,) = problems(folder, "\n".join(map(json.dumps, rows)), "p.jsonl")
    assert found == f":2: its id has the character {json.dumps(sign)} in it; write ids in one line of plain text"


def test_an_id_over_two_lines_of_a_csv_is_refused_and_one_of_any_script_is_not(folder: Path) -> None:
    (found,) = problems(folder, 'id,premise\na,One.\n"b\nc",Two.\n')
    assert found.startswith(':3: its id has the character "\\n" in it')
    content = "id,premise\nnaïve id-1,One.\nक्\u200dष,Two.\n"
    assert [one.id for one in read(folder, content)] == ["naïve id-1", "क्\u200dष"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", ": has no contexts; add rows"),
        ("premise\n", ": has no contexts; add rows"),
        ("text,id\nx,1\n", ":1: the first line has no column `premise`; name the columns there: premise, and id"),
        ("premise,premise\nx,1\n", ":1: two columns have one name; rename one"),
        ('[{"premise": "x"}]', ":1: is one JSON list; write one object per line"),
        ("premise\nx\n".encode("utf-16"), ": is not UTF-8; save the file as UTF-8"),
        (b"pr\xe9mise,premise\nOne.,Two.\n", ":1: is not UTF-8; save the file as UTF-8"),
        ("x" * 1_000_001 + "\npremise\nOne.\n", ":1: is longer than 1,000,000 bytes; shorten the row"),
        (f"premise,{LONG}\nOne.,x\n", f":1: {TOO_LONG}"),
        (f"premise,note\nOne.,{LONG}\n", f":2: {TOO_LONG}"),
        ('premise\n"One.\n' + "Two.\n" * 40_000, f":2: {TOO_LONG}"),
        ('{"premise": "One.", "premise": "Two."}\n', ":1: has `premise` twice; keep one of them"),
        ('{"premise": "One.", "n": {"a": 1, "a": 1}}\n', ":1: has `a` twice; keep one of them"),
        ('{"premise": "One."}\n{"premise": "Two.", "n": 1e400}\n', ":2: has a number that is too large, 1e400; put it"),
        ('{"premise": "One.", "n": ' + "9" * 5_000 + "}", ":1: has a number that is too large, 9999"),
        ('{"premise": "One.", "n": NaN}', ":1: has NaN, which is no number in JSON; put it in quotes, or leave it out"),
        ("premise\n" + "x" * 1_000_001 + "\n", ":2: is longer than 1,000,000 bytes; shorten the row"),
    ],
    ids=lambda one: repr(one)[:60],
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
