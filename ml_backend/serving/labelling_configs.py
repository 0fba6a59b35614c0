"""Whether a Label Studio project's labelling config is made for a task, and whether it can show a verdict."""

from dataclasses import dataclass

from ml_backend.serving.errors import RequestRefused
from templates.errors import PackError
from templates.spec import TaskSpec
from templates.xml_lines import MAX_CHARS, read_elements

# One per project that asks this process, with room for those that were changed; each is at most MAX_CHARS long.
_REMEMBERED = 64


@dataclass(frozen=True)
class Config:
    """What a labelling config is to a task: why it does not fit (None if it does), and if it has a place for verdicts.

    A validation project has no such place, and must not have: its people judge without knowing what the model said.
    """

    misfit: str | None
    shows_feedback: bool


class LabellingConfigs:
    """Knows the configs that it has seen; a config is read once, for a request can afford to look but not to parse."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._known: dict[str, Config] = {}

    def check(self, xml: object) -> Config:
        """What this config is to the task, or a refusal that says that it belongs to another."""
        if xml is None:
            return Config(None, True)
        if not isinstance(xml, str) or len(xml) > MAX_CHARS:
            raise RequestRefused(422, "the labelling config is not a text, or too long; send the project's own")
        config = self._known.get(xml)
        if config is None:
            config = self._read(xml)
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            self._known[xml] = config
        if config.misfit is not None:
            raise RequestRefused(422, config.misfit)
        return config

    def _read(self, xml: str) -> Config:
        try:
            names = {element.name for element in read_elements(xml, "the labelling config")}
        except PackError as error:
            return Config(str(error.problems[0]), False)
        for name in self._spec.model_input:
            if name not in names:
                task = self._spec.name
                text = f"this project is not one of task `{task}`: its labelling config has no `{name}`"
                return Config(f"{text}; use the pack's create.xml or the URL of another task", False)
        return Config(None, "feedback" in names)
