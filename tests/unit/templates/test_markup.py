"""What `check` says about templates that Label Studio would take and people could not use."""

from collections.abc import Callable
from pathlib import Path

import pytest

from templates import load_pack
from templates.markup import check_markup
from tests.conftest import PACKS, replace_in

CopyOf = Callable[[str], Path]


def problems_in(folder: Path) -> list[str]:
    return [str(problem) for problem in check_markup(load_pack(folder))]


def after(copy_of: CopyOf, pack: str, file: str, old: str, new: str) -> list[str]:
    """What is wrong with a built-in pack after one change to one of its templates."""
    folder = copy_of(pack)
    replace_in(folder / file, old, new)
    return problems_in(folder)


@pytest.mark.parametrize("name", PACKS)
def test_the_built_in_templates_have_no_mistakes(copy_of: CopyOf, name: str) -> None:
    assert problems_in(copy_of(name)) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("<Header ", "<Heading ", "<Heading> is not a tag of text templates; did you mean `Header`?"),
        ("<Header ", "<Image ", "<Image> is not a tag of text templates"),
        ('rows="3"', 'row="3"', "<TextArea> has no attribute `row`; did you mean `rows`?"),
        ("smartOnly=", "smartonly=", "<TextArea> has no attribute `smartonly`; did you mean `smartOnly`?"),
        ('editable="true"', 'editable="yes"', 'editable="yes" is not understood; write one of true, false'),
        ('toName="prompt"', 'toName="promt"', 'toName="promt" of <TextArea> leads nowhere; write one of: prompt'),
        ('name="why_wrong"', 'name="why_right"', "name `why_right` is also on line"),
        ('name="why_wrong" ', "", "<TextArea> has no name"),
        ("<View className=", "<View onclick=", "<View> has no attribute `onclick`"),
    ],
)
def test_what_the_editor_does_not_understand_is_named(copy_of: CopyOf, old: str, new: str, says: str) -> None:
    (problem,) = after(copy_of, "sentiment", "create.xml", old, new)
    assert says in problem


def test_a_problem_names_the_file_and_the_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    lines = (folder / "create.xml").read_text(encoding="utf-8").splitlines()
    number = next(place for place, line in enumerate(lines, 1) if "<Text " in line)
    replace_in(folder / "create.xml", "<Text ", "<Txt ")
    assert problems_in(folder)[0].startswith(f"create.xml:{number}: <Txt> is not a tag")


def test_malformed_xml_is_reported_with_its_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "validate.xml").write_text("<View>\n  <Header value='a & b'/>\n</View>", encoding="utf-8")
    (problem,) = problems_in(folder)
    assert problem.startswith("validate.xml:2: is not valid XML")
    assert "&amp;" in problem


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (
            '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><View><Header value="&c;"/></View>',
            "has a DOCTYPE",
        ),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><View>&b;</View>', "has a DOCTYPE"),
        ('<?xml-stylesheet href="a.xsl"?><View/>', "has a processing instruction"),
        ('<?xml version="1.0" encoding="utf-8"?><View/>', "remove that line"),
        ("<View>" * 50 + "</View>" * 50, "more than 40 deep"),
        (f"<View>{' ' * 200_001}</View>", "longer than 200,000 characters"),
        ("", "is not valid XML: no element found"),
    ],
)
def test_hostile_or_odd_xml_is_refused_before_it_is_read(copy_of: CopyOf, head: str, says: str) -> None:
    folder = copy_of("sentiment")
    (folder / "create.xml").write_text(head, encoding="utf-8")
    (problem,) = problems_in(folder)
    assert problem.startswith("create.xml")
    assert says in problem


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("line-height: 1.5;", "background: url(https://example.com/a.png);", "<Style> loads something from elsewhere"),
        (".outfox .goal {", ".outfox > .goal {", "the style has <, > or &"),
        ("**Positive**", "![x](https://example.com/a.png)", "<Markdown> loads something from elsewhere"),
        ('value="Your sentence"', 'value="&lt;img src=x onerror=alert(1)>"', "<Header> has a script"),
        ('value="Your sentence"', 'value="&lt;img src=x>"', "has HTML <img>"),
        ('value="Your sentence"', 'value="[a](javascript:alert(1))"', "<Header> has a script"),
    ],
)
def test_nothing_is_run_or_fetched(copy_of: CopyOf, old: str, new: str, says: str) -> None:
    problems = after(copy_of, "sentiment", "create.xml", old, new)
    assert any(says in problem for problem in problems), problems


def test_text_between_tags_would_not_be_shown(copy_of: CopyOf) -> None:
    (problem,) = after(copy_of, "sentiment", "create.xml", '<View className="card verdict">', "<View>Hello")
    assert "text inside <View> is not shown" in problem


@pytest.mark.parametrize(
    ("pack", "file", "old", "new", "says"),
    [
        ("sentiment", "validate.xml", 'alias="neutral"', 'alias="mixed"', "choice `mixed` of `label` is not among"),
        ("sentiment", "validate.xml", 'alias="neutral"', 'alias="mixed"', "`label` lacks `neutral` of task.yaml"),
        (
            "sentiment",
            "validate.xml",
            'alias="neutral"',
            'alias="positive"',
            "choice `positive` of `label` is there twice",
        ),
        ("sentiment", "validate.xml", 'whenTagName="flag"', 'whenTagName="label"', "nobody can flag"),
        (
            "sentiment",
            "validate.xml",
            'name="flag" toName="text" choice="single"',
            'name="flag" toName="text" choice="multiple"',
            "could not be taken back",
        ),
        (
            "sentiment",
            "validate.xml",
            "Judge this",
            "It should read $target_title. Judge this",
            "`$target_title.` must not",
        ),
        (
            "sentiment",
            "validate.xml",
            'name="text" value="$text"',
            'name="text" value="$txt"',
            "`$txt` must not or cannot be shown",
        ),
        ("sentiment", "create.xml", "as: $target_title", "as asked", "the label to write for is not shown"),
        ("sentiment", "create.xml", "as: $target_title", "as: $target_title.", "is read with its dot"),
        ("sentiment", "create.xml", 'smartOnly="true" ', "", '`text` needs smartOnly="true": the model is not asked'),
        (
            "sentiment",
            "create.xml",
            'name="why_wrong"',
            'name="why_not"',
            "`why_not` would be filled in and never read",
        ),
        ("sentiment", "create.xml", 'name="feedback"', 'name="verdict"', "`feedback` is missing"),
        (
            "nli",
            "create.xml",
            'required="true" requiredMessage="Say',
            'requiredMessage="Say',
            "`why_right` has to be filled in",
        ),
        ("hate_speech", "create.xml", 'alias="none"', 'alias="nothing"', "`hate_type` lacks `none` of task.yaml"),
        ("qa", "create.xml", '<Label value="Answer"', '<Label value="Right"', 'write <Label value="Answer"/>'),
        (
            "qa",
            "validate.xml",
            'name="answer" toName="passage"',
            'name="answer" toName="question"',
            "the answer is selected in `passage`",
        ),
    ],
)
def test_what_the_spec_needs_is_asked_for(copy_of: CopyOf, pack: str, file: str, old: str, new: str, says: str) -> None:
    problems = after(copy_of, pack, file, old, new)
    assert any(says in problem for problem in problems), problems


def test_an_annotator_who_chooses_the_label_needs_a_place_to_do_it(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "set_by: task", "set_by: annotator")
    problems = problems_in(folder)
    assert any("`label` is missing; add <Choices" in problem for problem in problems)
    assert any("`$target_title` must not or cannot be shown" in problem for problem in problems)
