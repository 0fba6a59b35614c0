"""Templates that Label Studio accepts but people could not use."""

from collections.abc import Callable
from pathlib import Path

import pytest

from templates import load_pack
from templates.markup import check_markup
from tests.conftest import PACKS, replace_in, write_lists

CopyOf = Callable[[str], Path]


def problems_in(folder: Path) -> list[str]:
    return [str(problem) for problem in check_markup(load_pack(folder))]


def after(copy_of: CopyOf, pack: str, file: str, old: str, new: str) -> list[str]:
    """Return the problems of a built-in pack after one change to one of its templates."""
    folder = copy_of(pack)
    write_lists(folder)
    replace_in(folder / file, old, new)
    return problems_in(folder)


@pytest.mark.parametrize("name", PACKS)
def test_the_built_in_templates_have_no_mistakes(copy_of: CopyOf, name: str) -> None:
    assert problems_in(copy_of(name)) == []


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("<Header ", "<Heading ", ("<Heading>", "`Header`")),
        ("<Header ", "<Image ", ("<Image>",)),
        ('rows="3"', 'row="3"', ("<TextArea>", "`row`", "`rows`")),
        ("smartOnly=", "smartonly=", ("`smartonly`", "`smartOnly`")),
        ('editable="true"', 'editable="yes"', ('editable="yes"', "true, false")),
        ('toName="prompt"', 'toName="promt"', ('toName="promt"', ": prompt")),
        ('name="why_wrong"', 'name="why_right"', ("`why_right` is also on line",)),
        ('name="why_wrong" ', "", ("<TextArea> has no name",)),
        ("<View className=", "<View onclick=", ("<View>", "`onclick`")),
    ],
)
def test_unknown_tags_and_attributes_are_named(copy_of: CopyOf, old: str, new: str, names: tuple[str, ...]) -> None:
    (problem,) = after(copy_of, "sentiment", "create.xml", old, new)
    assert problem.startswith("create.xml:")
    assert all(name in problem for name in names)


def test_a_problem_names_the_file_and_the_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    lines = (folder / "create.xml").read_text(encoding="utf-8").splitlines()
    number = next(place for place, line in enumerate(lines, 1) if "<Text " in line)
    replace_in(folder / "create.xml", "<Text ", "<Txt ")
    assert problems_in(folder)[0].startswith(f"create.xml:{number}: <Txt>")


def test_malformed_xml_is_reported_with_its_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "validate.xml").write_text("<View>\n  <Header value='a & b'/>\n</View>", encoding="utf-8")
    (problem,) = problems_in(folder)
    assert problem.startswith("validate.xml:2: ")
    assert "&amp;" in problem


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (
            '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><View><Header value="&c;"/></View>',
            "DOCTYPE",
        ),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><View>&b;</View>', "DOCTYPE"),
        ('<?xml-stylesheet href="a.xsl"?><View/>', "xml-stylesheet"),
        ('<?xml version="1.0" encoding="utf-8"?><View/>', "<?xml"),
        ("<View>" * 50 + "</View>" * 50, "40"),
        (f"<View>{' ' * 200_001}</View>", "200,000"),
        ("", "no element found"),
    ],
)
def test_hostile_xml_is_refused(copy_of: CopyOf, head: str, says: str) -> None:
    folder = copy_of("sentiment")
    (folder / "create.xml").write_text(head, encoding="utf-8")
    (problem,) = problems_in(folder)
    assert problem.startswith("create.xml")
    assert says in problem


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("line-height: 1.5;", "background: url(https://example.com/a.png);", "<Style> loads"),
        (".outfox .goal {", ".outfox > .goal {", "the style"),
        ("**Positive**", "![x](https://example.com/a.png)", "<Markdown> loads"),
        ('value="Your sentence"', 'value="&lt;img src=x onerror=alert(1)>"', "script"),
        ('value="Your sentence"', 'value="&lt;img src=x>"', "<img>"),
        ('value="Your sentence"', 'value="[a](javascript:alert(1))"', "script"),
    ],
)
def test_scripts_and_external_content_are_refused(copy_of: CopyOf, old: str, new: str, says: str) -> None:
    problems = after(copy_of, "sentiment", "create.xml", old, new)
    assert any(says in problem for problem in problems), problems


def test_text_between_tags_is_reported(copy_of: CopyOf) -> None:
    (problem,) = after(copy_of, "sentiment", "create.xml", '<View className="card verdict">', "<View>Hello")
    assert "<View>" in problem


@pytest.mark.parametrize(
    ("pack", "file", "old", "new", "says"),
    [
        ("sentiment", "validate.xml", 'alias="neutral"', 'alias="mixed"', "choice `mixed` of `label`"),
        ("sentiment", "validate.xml", 'alias="neutral"', 'alias="mixed"', "`label` has no `neutral`"),
        (
            "sentiment",
            "validate.xml",
            'alias="neutral"',
            'alias="positive"',
            "choice `positive` of `label`",
        ),
        ("sentiment", "validate.xml", 'whenTagName="flag"', 'whenTagName="label"', "`label` is required"),
        (
            "sentiment",
            "validate.xml",
            'name="flag" toName="text" choice="single"',
            'name="flag" toName="text" choice="multiple"',
            'choice="single"',
        ),
        (
            "sentiment",
            "validate.xml",
            "Judge this",
            "It should read $target_title. Judge this",
            "`$target_title.`",
        ),
        (
            "sentiment",
            "validate.xml",
            'name="text" value="$text"',
            'name="text" value="$txt"',
            "`$txt`",
        ),
        ("sentiment", "create.xml", "as: $target_title", "as asked", "$target_title"),
        ("sentiment", "create.xml", "as: $target_title", "as: $target_title.", "`$target_title.`"),
        ("sentiment", "create.xml", 'smartOnly="true" ', "", '`text` needs smartOnly="true"'),
        (
            "sentiment",
            "create.xml",
            'name="why_wrong"',
            'name="why_not"',
            "`why_not`",
        ),
        ("sentiment", "create.xml", 'name="feedback"', 'name="verdict"', "`feedback`"),
        (
            "nli",
            "create.xml",
            'required="true" requiredMessage="Say',
            'requiredMessage="Say',
            "`why_right`",
        ),
        ("hate_speech", "create.xml", 'alias="none"', 'alias="nothing"', "`hate_type` has no `none`"),
        ("qa", "create.xml", '<Label value="Answer"', '<Label value="Right"', 'write <Label value="Answer"/>'),
        (
            "qa",
            "validate.xml",
            'name="answer" toName="passage"',
            'name="answer" toName="question"',
            'toName="passage"',
        ),
    ],
)
def test_what_the_task_needs_is_reported(copy_of: CopyOf, pack: str, file: str, old: str, new: str, says: str) -> None:
    problems = after(copy_of, pack, file, old, new)
    assert any(says in problem for problem in problems), problems


def test_an_annotator_who_chooses_the_label_needs_a_control_for_it(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "set_by: task", "set_by: annotator")
    problems = problems_in(folder)
    assert any("`label` is missing; add <Choices" in problem for problem in problems)
    assert any("`$target_title`" in problem for problem in problems)
