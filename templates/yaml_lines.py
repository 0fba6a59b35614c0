"""YAML that remembers on which line each value stands, and refuses a key that is written twice."""

from pathlib import Path
from typing import Any

import yaml

from templates.errors import PackError, Problem

Where = tuple[str | int, ...]

MOST_CHARACTERS = 200_000
DEEPEST = 50


class LinedYaml:
    """A YAML file as plain values, with the line of each."""

    def __init__(self, path: Path) -> None:
        self._file = path.name
        self._lines: dict[Where, int] = {}
        try:
            # utf-8-sig: editors on Windows put a byte order mark in front.
            text = path.read_text(encoding="utf-8-sig")
            self._refuse_bombs(text)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except UnicodeDecodeError as error:
            raise self._error(None, "is not UTF-8; save the file as UTF-8") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise self._error(line, f"is not valid YAML: {error.problem}; check the indentation and quotes") from error
        except yaml.YAMLError as error:
            raise self._error(None, "has a character that YAML does not allow; remove it") from error
        if root is None:
            raise self._error(None, "is empty; copy the file of another pack and change it")
        self.value: Any = self._build(root, ())

    def line_of(self, where: Where) -> int | None:
        """The line of a value, or of the nearest part around it."""
        for length in range(len(where), -1, -1):
            if where[:length] in self._lines:
                return self._lines[where[:length]]
        return None

    def _refuse_bombs(self, text: str) -> None:
        """A few lines of aliases can stand for more values than any machine holds, and deep nesting takes minutes."""
        if len(text) > MOST_CHARACTERS:
            raise self._error(None, f"is longer than {MOST_CHARACTERS:,} characters; shorten it")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
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
                key = str(key_node.value)
                line = key_node.start_mark.line + 1
                if key in built:
                    raise self._error(line, f"`{key}` is written twice in one place; remove one")
                self._lines[(*where, key)] = line
                built[key] = self._build(child, (*where, key))
            return built
        # Scalars only: SafeLoader builds no object of ours or anybody's.
        return yaml.SafeLoader("").construct_object(node)

    def _error(self, line: int | None, text: str) -> PackError:
        return PackError([Problem(self._file, line, text)])
