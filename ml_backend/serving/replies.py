"""What Label Studio gets back from a predict call."""

from typing import Any

from ml_backend.verdict import Verdict
from templates.pack import Pack
from templates.payloads import results
from templates.written import TooLong
from templates.xml_lines import read_elements

FEEDBACK = "feedback"

Json = dict[str, Any]


class Replies:
    """Writes the replies of one task: its pack says where a verdict is shown and in which words."""

    def __init__(self, pack: Pack) -> None:
        self._spec = pack.spec
        elements = read_elements(pack.create_xml, "create.xml")
        self._places = [element for element in elements if element.name == FEEDBACK]

    def verdict(self, verdict: Verdict, tries: int | None) -> Json:
        """One task's verdict as a sentence, the tries behind it where they are known.

        Its result has no id: Label Studio would show a result with a known id as it was before.
        """
        sentence = verdict.sentence(self._spec)
        if tries is not None:
            # Figures alone, for the sentence is in the task's language and this must be too.
            sentence = f"{sentence} ({tries}/{self._spec.work.tries})"
        shown = results(self._places, {FEEDBACK: sentence})
        version = versions_named([one.version for one in verdict.outputs])
        return {"model_version": version, "score": verdict.shown.confidence, "result": shown}

    def too_long(self, found: TooLong, version: str) -> Json:
        """The reply for a text that could never be handed in, whatever the models say to it."""
        shown = results(self._places, {FEEDBACK: found.sentence(self._spec)})
        return {"model_version": version, "score": 0.0, "result": shown}

    def nothing(self, version: str) -> Json:
        """The reply for a task about which there is nothing to say yet."""
        return {"model_version": version, "score": 0.0, "result": []}


def reply(answers: list[Json], version: str) -> Json:
    """The whole reply: one answer for each task of the call, in their order."""
    return {"results": answers, "model_version": version}


def versions_named(versions: list[str]) -> str:
    """One name for one version or for several that answer together."""
    return "+".join(versions)
