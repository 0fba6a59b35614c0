"""YAML with the line of each value; repeated keys, aliases and deep nesting are refused."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from templates.errors import PackError, Problem
from templates.sections import SettingPath

# libyaml's loader is six times as fast; on a few systems PyYAML comes without it.
FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_CHARS = 200_000
MAX_DEPTH = 50


# How the loader's messages begin, and what to look for in the file.
EXPLANATIONS = {
    "mapping values are not allowed": "one colon too many, or a line indented too far; quote texts that contain colons",
    "found character '\\t'": "a tab; indent with spaces",
    "expected <block end>": "a line is not indented like those above it, or a quote is not closed before it; fix that",
    "could not find expected ':'": "a setting without a colon, or a text of several lines without quotes; add them",
    "found unexpected end of stream": "a quote is not closed; close it",
    "expected ',' or ']'": "a list is not closed; put commas between its entries and ] at its end",
    "expected ',' or '}'": "a brace is not closed; put commas between its settings and } at its end",
    "sequence entries are not allowed": "a list that starts within a line; write each `- entry` on its own line",
    "expected the node content": "a missing value, or one bracket too many; fix that",
    "but found another document": "a line with ---; remove it",
    "found character '@'": "a text that begins with @; quote it",
    "found character '`'": "a text that begins with a backtick; quote it",
    "found character '%'": "a text that begins with %; quote it",
    "found unknown escape character": "a backslash in double quotes; use single quotes",
}


class YamlDocument:
    """A YAML file as plain values, with the line of each."""

    def __init__(self, path: Path) -> None:
        self._file = path.name
        self._lines: dict[SettingPath, int] = {}
        try:
            # utf-8-sig: editors on Windows put a byte order mark in front.
            text = path.read_text(encoding="utf-8-sig")
            root = self._compose(text)
        except UnicodeDecodeError as error:
            raise self._error(None, "file_not_utf8", "is not UTF-8; save the file as UTF-8") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise self._error(
                line, "yaml_invalid", f"is not valid YAML: {_explanation(error.problem or '')}"
            ) from error
        except yaml.YAMLError as error:
            raise self._error(
                None, "yaml_invalid", "contains a character that YAML does not allow; remove it"
            ) from error
        if root is None:
            raise self._error(None, "file_empty", "is empty; copy the file from another pack and change it")
        self.value: Any = self._build(root, ())

    def has(self, path: SettingPath) -> bool:
        """Return whether the file has a value at that path, as opposed to a default."""
        return path in self._lines

    def line_of(self, path: SettingPath) -> int | None:
        """Return the line of a value, or of the section around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None

    def _compose(self, text: str) -> yaml.Node | None:
        """Return the file's nodes. PyYAML's own loader reports errors better, and tabs, which libyaml accepts."""
        if "\t" not in text:
            with suppress(yaml.YAMLError):
                return self._composed_by(FAST_LOADER, text)
        return self._composed_by(yaml.SafeLoader, text)

    def _composed_by(self, loader: Any, text: str) -> yaml.Node | None:
        self._check_size(loader, text)
        root: yaml.Node | None = yaml.compose(text, Loader=loader)
        return root

    def _check_size(self, loader: Any, text: str) -> None:
        """Refuse aliases, which can expand to any number of values, and deep nesting, which takes minutes to parse."""
        if len(text) > MAX_CHARS:
            raise self._error(None, "file_too_long", f"is longer than {MAX_CHARS:,} characters; shorten it")
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1 if event.start_mark else None
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise self._error(
                    line, "nested_too_deeply", "is nested too deeply; copy the file from another pack and change it"
                )
            if isinstance(event, yaml.AliasEvent):
                raise self._error(line, "yaml_alias", "has an alias (*name); write the value itself")

    def _build(self, node: yaml.Node, path: SettingPath) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(child, (*path, index)) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            built: dict[str, Any] = {}
            for key_node, child in node.value:
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise self._error(
                        line, "yaml_invalid", "has brackets in the place of a setting's name; quote texts"
                    )
                key = str(key_node.value)
                if key in built:
                    raise self._error(line, "setting_duplicate", f"`{key}` is set twice in one section; remove one")
                self._lines[(*path, key)] = line
                built[key] = self._build(child, (*path, key))
            return built
        try:
            # Only scalars reach this: SafeLoader does not build objects.
            return yaml.SafeLoader("").construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            # An unknown tag, or an impossible date.
            text = "has an unreadable value; quote it, and remove a tag (!name)"
            raise self._error(node.start_mark.line + 1, "yaml_value_invalid", text) from error

    def _error(self, line: int | None, code: str, text: str) -> PackError:
        return PackError([Problem(self._file, line, code, text)])


def _explanation(problem: str) -> str:
    for start, words in EXPLANATIONS.items():
        if problem.startswith(start):
            return words
    return f"{problem}; check the indentation and quotes"
