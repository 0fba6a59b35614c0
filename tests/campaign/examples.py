"""Submissions, verdicts and attempts as Label Studio and the ML backend send them."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.verdict import ModelOutput, Verdict, inputs_hash, judge
from round_manager.examples.submissions import Submission
from round_manager.models import Context, LabelStudioLink, LabelStudioTask, ProjectKind, Source, ensure_worker
from tests.campaign.base import MINUTE, CampaignBase
from tests.fakes.clock import NOON
from tests.fakes.target import FakeTarget

PROJECT, LS_TASK = 7, 4711


class ExampleInputs(CampaignBase):
    """Makes what other processes send."""

    def link_label_studio(self) -> None:
        """Link a project whose task LS_TASK shows the first context, with two users who write and vote."""
        with self.store.write() as session:
            self.author = ensure_worker(session, "label_studio", "http://ls/users/1", now=self.now).id
            self.voter = ensure_worker(session, "label_studio", "http://ls/users/2", now=self.now).id
            link = LabelStudioLink(task_id=self.task.id, kind=ProjectKind.CREATE, url="http://ls", project=PROJECT)
            session.add(link)
            session.flush()
            key, context_id = self.context.key, self.context.id
            row = LabelStudioTask(
                link_id=link.id, key=key, context_id=context_id, external_id=LS_TASK, created_at=self.now
            )
            session.add(row)
            session.flush()
            self.ls_task = row.id

    def submission(self, **changes: Any) -> Submission:
        """Return a valid submission that fools the fake target, which predicts the first label."""
        written: dict[str, Any] = {
            "fields": self.fields(),
            "label": self.spec.label_names[1] if self.spec.labels else None,
            "answer": None if self.spec.labels else self.last_word(self.context),
            "explanation": {field.name: "Because." for field in self.spec.with_role("reason")},
            "context_id": self.context.id,
            "author_id": self.author,
            "source": Source.LABEL_STUDIO,
            "submitted_at": NOON + 10 * MINUTE,
            "label_studio_task_id": self.ls_task,
        }
        return Submission(**{**written, **changes})

    def fields(self, **changes: str) -> dict[str, str]:
        """Return the fields of an example on the first context."""
        written = {field.name: f"A {field.name} like any other." for field in self.spec.with_role("input")}
        chosen = {field.name: field.choices[0] for field in self.spec.with_role("extra") if field.choices}
        return {**self.context.fields, **written, **chosen, **changes}

    def last_word(self, context: Context) -> dict[str, Any]:
        """Return the last word of the passage, as an answer."""
        passage = str(context.fields["passage"])
        text = passage.split()[-1]
        start = passage.rindex(text)
        return {"text": text, "start": start, "end": start + len(text)}

    def verdict(self, submission: Submission, **changes: Any) -> Verdict:
        """Return the verdict of the round's versions."""
        target = submission.label or (submission.answer or {}).get("text")
        targets = [FakeTarget(self.spec, version) for version in changes.get("versions", self.versions)]
        answers = [(one.version, one.predict([submission.fields])[0]) for one in targets]
        return judge(self.spec, submission.fields, answers, target, now=NOON)

    def attempt_record(self, fields: Mapping[str, str] | None = None, **changes: Any) -> AttemptRecord:
        """Return an attempt on the Label Studio task."""
        asked = fields if fields is not None else self.fields()
        label = self.spec.label_names[1] if self.spec.labels else None
        output = ModelOutput(self.version, "x", 0.75, {"x": 0.75, "y": 0.25}, True if label else None)
        verdict = Verdict(
            changes.pop("id", uuid4()),
            changes.pop("task", self.spec.name),
            inputs_hash(self.spec, asked),
            changes.pop("target", label),
            changes.pop("outputs", (output,)),
            changes.pop("fooled", output.fooled),
            changes.pop("at", NOON + MINUTE),
        )
        row: dict[str, Any] = {
            "round": None,
            "latency_us": 3_700,
            "source": "label_studio",
            "label_studio_project": PROJECT,
            "label_studio_task": LS_TASK,
        }
        return AttemptRecord(verdict, asked, **{**row, **changes})
