"""Checks of a pack's two Label Studio templates, with the line of each mistake.

This module checks that the editor understands a template: known tags, attributes and values, unique names, `toName`
that refers to a tag, nothing that fetches or runs code. `templates/contract.py` checks what a template must contain for
the pack's task.yaml:

create.xml, for authors
  context fields   an object tag: `<Text name="F" value="$F"/>`
  input fields     a TextArea named F with `smartOnly="true"` (asks the model at once) and `maxSubmissions="1"`
  span field       a Labels on the passage, with `smartOnly="true"` and one Label stored as `Answer`
  reason fields    a TextArea
  extra fields     a Choices whose stored values are the field's choices; a TextArea if it has none
  required fields  `required="true"` with a `requiredMessage` (Label Studio cannot require Labels)
  feedback         a TextArea that shows the verdict; never required, never `smartOnly`
  the target       set by the task: show `$target_title`. Set by the annotator: a required Choices named `label`
  a returned task  `$reason` says why the submission was not accepted, and `value="$sentence"` of the input's TextArea
                   holds its text; both are empty in other tasks

validate.xml, for validators
  judged fields    object tags for the input fields and everything else that the model reads, but not a prompt that
                   only inspired the author: it could reveal the target
  label            a required Choices that is hidden while `flag` is chosen, so that validators give one of the two
  span field       (qa) a Labels on the passage, as above
  flag             an optional Choices of the pack's flag reasons that can be unselected: `choice="single"`
  comment          an optional TextArea
  never            the target, the reasons, the author or the model's answer

A Choice or Label is stored as its `alias`, or its `value` if it has none: put the label's name in `alias`, its title in
`value`, and any further text in `html`.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from templates.contract import contract_problems
from templates.errors import PackError, Problem
from templates.label_config import OBJECT_TAGS, PARENTS, TAGS, TEXT_TAGS, Element, allowed_values, read_elements
from templates.pack import Pack, in_language_of

# The line, the code and the text of each problem.
Found = Iterator[tuple[int, str, str]]

# Text formatting only: the editor removes scripts, but not images, links or forms that contact other servers.
_HTML_TAGS = ("b", "strong", "i", "em", "u", "small", "code", "span", "div", "p", "br", "ul", "ol", "li")
_HTML_TAG = re.compile(r"</?([a-zA-Z][\w:-]*)")
_RUNS = re.compile(r"javascript:|vbscript:|data:text|<[^>]*\bon[a-z]+\s*=", re.IGNORECASE)
_FETCHES = re.compile(r"url\s*\(|@import|expression\s*\(|!\[[^]]*\]\(", re.IGNORECASE)


def check_markup(pack: Pack) -> list[Problem]:
    """Return every problem of create.xml, validate.xml and their versions in other languages, file by file."""
    names = ("create.xml", "validate.xml")
    others = [(in_language_of(name, one), one) for name in names for one in pack.languages]
    there = [(file, language) for file, language in others if (pack.folder / file).is_file()]
    files = [*((name, pack.languages[0]) for name in names), *there]
    return [problem for file, language in files for problem in _check_file(pack, file, language)]


def _check_file(pack: Pack, file: str, language: str) -> list[Problem]:
    xml = pack.text(file, language)
    try:
        elements = read_elements(xml, file)
    except PackError as error:
        return list(error.problems)
    found = [*_tags(elements), *_names(elements), *_safety(elements)]
    if not found:
        # For a template that the editor cannot read, the contract would report the same mistakes again.
        found = list(contract_problems(pack.spec, file, elements, language))
    return [Problem(file, *one) for one in sorted(found)]


def _tags(elements: list[Element]) -> Found:
    if elements[0].tag != "View":
        yield elements[0].line, "root_not_view", f"begins with <{elements[0].tag}>; put everything into one <View>"
    for element in elements:
        if element.tag not in TAGS:
            text = f"<{element.tag}> is not a tag of text templates; {_nearest(element.tag, list(TAGS))}"
            yield element.line, "tag_unknown", text
            continue
        if element.tag in PARENTS and element.inside(*PARENTS[element.tag]) is None:
            where = " or ".join(f"<{tag}>" for tag in PARENTS[element.tag])
            yield element.line, "tag_misplaced", f"<{element.tag}> has no effect here; move it into {where}"
        if element.text.strip() and element.tag not in TEXT_TAGS:
            text = f'text inside <{element.tag}> is not shown; write <Header value="…"/> for it'
            yield element.line, "text_not_shown", text
        yield from _attributes(element)


def _attributes(element: Element) -> Found:
    known = TAGS[element.tag]
    for attribute, value in element.attributes.items():
        if attribute not in known:
            text = f"<{element.tag}> has no attribute `{attribute}`; {_nearest(attribute, sorted(known))}"
            yield element.line, "attribute_unknown", text
            continue
        allowed = allowed_values(element.tag, attribute)
        if allowed and value not in allowed:
            text = f'{attribute}="{value}" is not allowed; write one of {", ".join(allowed)}'
            yield element.line, "attribute_invalid", text


def _names(elements: list[Element]) -> Found:
    lines: dict[str, int] = {}
    for element in elements:
        if element.name is None:
            if "name" in TAGS.get(element.tag, ()):
                yield element.line, "name_missing", f'<{element.tag}> has no name; add name="…"'
        elif element.name in lines:
            first = lines[element.name]
            text = f"name `{element.name}` is also on line {first}; give each tag its own"
            yield element.line, "name_duplicate", text
        else:
            lines[element.name] = element.line
    objects = sorted(element.name for element in elements if element.tag in OBJECT_TAGS and element.name)
    for element in elements:
        yield from _references(element, objects, set(lines))


def _references(element: Element, objects: list[str], names: set[str]) -> Found:
    if "toName" in TAGS.get(element.tag, ()):
        target = element.attributes.get("toName", "")
        for name in target.split(","):
            if name not in objects:
                known = ", ".join(objects) or "(no object tag yet)"
                text = f'toName="{name}" of <{element.tag}> refers to nothing; write one of: {known}'
                yield element.line, "reference_unknown", text
    when = element.attributes.get("whenTagName")
    if when is not None and when not in names:
        text = f'whenTagName="{when}" refers to nothing; {_nearest(when, sorted(names))}'
        yield element.line, "reference_unknown", text
    if element.tag in OBJECT_TAGS and not element.attributes.get("value") and not element.text.strip():
        yield element.line, "value_missing", f'<{element.tag}> shows nothing; add value="$field"'
    if element.tag in ("Choice", "Label") and not element.attributes.get("value"):
        yield element.line, "value_missing", f'<{element.tag}> has no value; add value="…"'


def _safety(elements: list[Element]) -> Found:
    for element in elements:
        text = "\n".join([*element.attributes.values(), element.text])
        if _FETCHES.search(text):
            text = f"<{element.tag}> loads from another server; use text, colours and shapes only"
            yield element.line, "resource_not_allowed", text
        if _RUNS.search(text):
            yield element.line, "script_not_allowed", f"<{element.tag}> has a script or an event handler; remove it"
        if element.tag == "Style" and re.search("[<>&]", text):
            # The editor escapes the style sheet, so that `a > b` becomes `a &gt; b`, which browsers ignore.
            text = "the style contains <, > or &, which the editor breaks; write `a b` for `a > b`"
            yield element.line, "style_characters", text
            continue
        for tag in _HTML_TAG.findall(text):
            if tag.lower() not in _HTML_TAGS:
                text = f"contains HTML <{tag}>; only text formatting such as <b>, <i> and <br> is allowed"
                yield element.line, "html_not_allowed", text


def _nearest(name: str, known: list[str]) -> str:
    folded = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), list(folded), n=3, cutoff=0.6)
    if close:
        # The beginning of a name is more often right than its end.
        best = max(close, key=lambda other: other[:3] == name.lower()[:3])
        return f"did you mean `{folded[best]}`?"
    return f"known: {', '.join(known)}" if known else "it has none; remove it"
