"""Projects, tasks, annotations and predictions put into a real Label Studio for tests, through its SDK."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plugin.labelstudio.adapter import open_sdk, translated_errors
from round_manager.labelstudio.port import LabelStudioError
from round_manager.labelstudio.projects import project_settings, project_title
from templates import Pack
from templates.payloads import Json, Template
from tests.fakes.creation_tasks import creation_tasks


@dataclass(frozen=True)
class Project:
    """A project in Label Studio."""

    id: int
    title: str
    url: str


class LabelStudio:
    """One Label Studio and the user whose token is used; every failure is a LabelStudioError."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._sdk = open_sdk(self._url, token)

    def ensure_project(self, pack: Pack, template: Template, known_id: int | None = None) -> Project:
        """Create or update the project of one of the pack's templates."""
        settings = project_settings(pack, template)
        found = self._known(known_id) or self.find_project(project_title(pack, template))
        with translated_errors(self._url):
            if found is None:
                return self._project(self._sdk.projects.create(**settings))
            return self._project(self._sdk.projects.update(found.id, **settings))

    def find_project(self, title: str) -> Project | None:
        """The project with exactly this title, the oldest if there are several."""
        with translated_errors(self._url):
            same = [one for one in self._sdk.projects.list(title=title) if one.title == title]
        return self._project(min(same, key=lambda one: one.id)) if same else None

    def delete_project(self, project: Project) -> None:
        """Deletes a project with everything in it."""
        with translated_errors(self._url):
            self._sdk.projects.delete(project.id)

    def import_tasks(self, project: Project, tasks: Sequence[Json]) -> list[int]:
        """Adds tasks and gives their ids, in the same order."""
        if not tasks:
            return []
        with translated_errors(self._url):
            answer = self._sdk.projects.import_tasks(project.id, request=list(tasks), return_task_ids=True)
            return list(answer.task_ids)

    def import_contexts(self, project: Project, pack: Pack) -> list[int]:
        """One task for each of the pack's contexts that the project does not have yet."""
        with translated_errors(self._url):
            there = {(task.meta or {}).get("context") for task in self._sdk.tasks.list(project=project.id)}
        wanted = creation_tasks(pack.spec, pack.contexts)
        return self.import_tasks(project, [task for task in wanted if task["meta"]["context"] not in there])

    def add_annotation(self, task_id: int, annotation: Json) -> int:
        """Stores an annotation as if the token's user had submitted it."""
        with translated_errors(self._url):
            made: int = self._sdk.annotations.create(task_id, **annotation).id
        return made

    def add_prediction(self, task_id: int, prediction: Json) -> int:
        """Stores what a model said about a task."""
        with translated_errors(self._url):
            made: int = self._sdk.predictions.create(task=task_id, **prediction).id
        return made

    def _known(self, project_id: int | None) -> Project | None:
        if project_id is None:
            return None
        try:
            with translated_errors(self._url):
                return self._project(self._sdk.projects.get(project_id))
        except LabelStudioError as error:
            if error.status == 404:
                return None
            raise

    def _project(self, found: Any) -> Project:
        return Project(found.id, found.title, f"{self._url}/projects/{found.id}/data")
