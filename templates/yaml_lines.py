"""YAML that remembers on which line each value stands, and refuses a key that is written twice."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from templates.errors import PackError, Problem

Where = tuple[str | int, ...]

# libyaml's reads a pack six times as fast; PyYAML comes without it on a few systems.
QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_CHARACTERS = 200_000
DEEPEST = 50


# What the loader says, by how it begins, and what whoever wrote the file has to look for.
PLAIN_WORDS = {
    "mapping values are not allowed": "a colon too many, or a line indented too far; put texts with colons in quotes",
    "found character '\\t'": "there is a tab; indent with spaces",
    "expected <block end>": "a line is not indented as those above it, or a quote before it is not closed; mend that",
    "could not find expected ':'": "a setting has no colon, or a text of several lines no quotes; add them",
    "found unexpected end of stream": "a quote is not closed; close it",
    "expected ',' or ']'": "a list is not closed; put commas between its entries and ] at its end",
    "expected ',' or '}'": "a brace is not closed; put commas between its settings and } at its end",
    "sequence entries are not allowed": "a list begins within a line; put each `- entry` on a line of its own",
    "expected the node content": "a value is missing, or a bracket is too many; mend that",
    "but found another document": "there is a line with --- in it; remove it",
    "found character '@'": "a text begins with @; put it in quotes",
    "found character '`'": "a text begins with a backtick; put it in quotes",
    "found character '%'": "a text begins with %; put it in quotes",
    "found unknown escape character": "a text in double quotes has a backslash; use single quotes",
}


class LinedYaml:
    """A YAML file as plain values, with the line of each."""

    def __init__(self, path: Path) -> None:
        self._file = path.name
        self._lines: dict[Where, int] = {}
        try:
            # utf-8-sig: editors on Windows put a byte order mark in front.
            text = path.read_text(encoding="utf-8-sig")
            root = self._compose(text)
        except UnicodeDecodeError as error:
            raise self._error(None, "is not UTF-8; save the file as UTF-8") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise self._error(line, f"is not valid YAML: {_in_plain_words(error.problem or '')}") from error
        except yaml.YAMLError as error:
            raise self._error(None, "has a character that YAML does not allow; remove it") from error
        if root is None:
            raise self._error(None, "is empty; copy the file of another pack and change it")
        self.value: Any = self._build(root, ())

    def has(self, where: Where) -> bool:
        """Whether the file itself has a value there, and not the program for want of one."""
        return where in self._lines

    def line_of(self, where: Where) -> int | None:
        """The line of a value, or of the nearest part around it."""
        for length in range(len(where), -1, -1):
            if where[:length] in self._lines:
                return self._lines[where[:length]]
        return None

    def _compose(self, text: str) -> yaml.Node | None:
        """The file's nodes, or the error of PyYAML's own loader, which says more and takes no tabs for spaces."""
        if "\t" not in text:
            with suppress(yaml.YAMLError):
                return self._composed_by(QUICK, text)
        return self._composed_by(yaml.SafeLoader, text)

    def _composed_by(self, loader: Any, text: str) -> yaml.Node | None:
        self._refuse_bombs(loader, text)
        root: yaml.Node | None = yaml.compose(text, Loader=loader)
        return root

    def _refuse_bombs(self, loader: Any, text: str) -> None:
        """A few lines of aliases can stand for more values than any machine holds, and deep nesting takes minutes."""
        if len(text) > MOST_CHARACTERS:
            raise self._error(None, f"is longer than {MOST_CHARACTERS:,} characters; shorten it")
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1 if event.start_mark else None
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise self._error(line, "is nested too deeply; copy the file of another pack and change it")
            if isinstance(event, yaml.AliasEvent):
                raise self._error(line, "has an alias (*name); write the value itself")

    def _build(self, node: yaml.Node, where: Where) -> Any:
        self._lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(child, (*where, place)) for place, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            built: dict[str, Any] = {}
            for key_node, child in node.value:
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise self._error(line, "has brackets where a setting's name should be; put texts in quotes")
                key = str(key_node.value)
                if key in built:
                    raise self._error(line, f"`{key}` is written twice in one place; remove one")
                self._lines[(*where, key)] = line
                built[key] = self._build(child, (*where, key))
            return built
        try:
            # Scalars only: SafeLoader builds no object of ours or anybody's.
            return yaml.SafeLoader("").construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            # A tag that nobody knows, or a date that no calendar has.
            text = "has a value that cannot be read; write it in quotes and without a tag (!name)"
            raise self._error(node.start_mark.line + 1, text) from error

    def _error(self, line: int | None, text: str) -> PackError:
        return PackError([Problem(self._file, line, text)])


def _in_plain_words(problem: str) -> str:
    for start, words in PLAIN_WORDS.items():
        if problem.startswith(start):
            return words
    return f"{problem}; check the indentation and quotes"
