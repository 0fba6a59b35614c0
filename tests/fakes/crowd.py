"""An in-memory Crowd that follows a marketplace's rules; tests act as its workers and make its calls fail."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crowd.errors import CrowdRefused, NotOnCrowd, WrongCrowdState
from crowd.port import (
    AssignmentState,
    BlockedWorker,
    BonusOrder,
    CrowdQualification,
    HitOrder,
    HitState,
    HitTerms,
    PaidBonus,
    PostedHit,
    SubmittedAssignment,
    UndeliveredMessage,
)
from crowd.profile import Price
from mturk.profile import MTURK
from mturk.shapes import external_question
from tests.fakes.crowd_rules import Hit, Rules

OVERRIDE_LIFE = timedelta(days=30)


class FakeCrowd(Rules):
    """A Crowd with a balance, on a test's clock; its profile is MTurk's."""

    profile = MTURK

    def __init__(self, now: Callable[[], datetime], cents: int = 1_000_000, name: str = "fake") -> None:
        super().__init__(now, cents)
        self.name = name
        self.messages: list[tuple[str, str, str]] = []
        self.events: dict[str, str] = {}

    def accept(self, hit_id: str, worker_id: str) -> None:
        """Let a worker accept a HIT, until it is submitted or its time is over."""
        with self._lock:
            self._catch_up()
            hit, now = self._hit(hit_id), self._now()
            seen = {*hit.held, *(one.worker_id for one in hit.works.values())}
            if hit.state(now) is not HitState.ASSIGNABLE or worker_id in seen:
                raise WrongCrowdState(f"there is nothing in {hit_id} for {worker_id}")
            if worker_id in self._blocks or not all(self._meets(worker_id, r) for r in hit.order.terms.requirements):
                raise CrowdRefused(f"{worker_id} may not take {hit_id}")
            hit.held[worker_id] = (now, now + timedelta(seconds=hit.order.terms.assignment_seconds))

    def give_back(self, hit_id: str, worker_id: str) -> None:
        """Let a worker return an accepted HIT."""
        self._hit(hit_id).held.pop(worker_id)

    def submit(self, hit_id: str, worker_id: str, answers: Mapping[str, str] | None = None) -> str:
        """Let a worker submit a HIT, after accepting it if necessary; return the assignment's id."""
        with self._lock:
            hit = self._hit(hit_id)
            self._catch_up()
            if worker_id not in hit.held:
                self.accept(hit_id, worker_id)
            accepted_at, _ = hit.held.pop(worker_id)
            now, auto = self._now(), timedelta(seconds=hit.order.terms.auto_approve_seconds)
            assignment_id = f"{hit_id}W{len(hit.works) + 1}"
            hit.works[assignment_id] = SubmittedAssignment(
                assignment_id=assignment_id,
                hit_id=hit_id,
                worker_id=worker_id,
                state=AssignmentState.SUBMITTED,
                accepted_at=accepted_at,
                submitted_at=now,
                auto_approve_at=now + auto,
                decided_at=None,
                feedback="",
                answers=dict(answers or {}),
            )
            self._works[assignment_id] = hit
            return assignment_id

    def price(self, terms: HitTerms, max_assignments: int) -> Price:
        return MTURK.fees.reward(terms.reward_cents, max_assignments)

    def bonus_price(self, cents: int) -> Price:
        return MTURK.fees.bonus(cents)

    def balance(self) -> int:
        with self._call("balance"):
            return self._available()

    def post(self, order: HitOrder) -> PostedHit:
        with self._call("post"):
            self._check(order.token)
            external_question(order.page_url, order.frame_height)
            if order.terms.reward_cents < 0 or order.max_assignments < 1:
                raise CrowdRefused("a HIT needs a reward and at least one assignment")
            before = self._made_by("post", order.token)
            if before:
                return self._hits[before].told(self._now())
            self._must_afford(order.max_assignments * self.price(order.terms, order.max_assignments).total_cents)
            now = self._now()
            type_id = self._types.setdefault(order.terms, f"TYPE{len(self._types) + 1:06}")
            hit_id = f"HIT{len(self._hits) + 1:012}"
            until = now + timedelta(seconds=order.lifetime_seconds)
            self._hits[hit_id] = Hit(hit_id, type_id, order, order.max_assignments, now, until)
            self._remember("post", order.token, hit_id)
            return self._hits[hit_id].told(now)

    def hit(self, hit_id: str) -> PostedHit:
        with self._call("hit"):
            return self._hit(hit_id).told(self._now())

    def hits(self) -> Iterator[PostedHit]:
        return self._pages(
            "hits", lambda: [one.told(self._now()) for one in reversed(self._hits.values()) if not one.deleted]
        )

    def expire(self, hit_id: str) -> None:
        with self._call("expire"):
            hit = self._hit(hit_id)
            hit.expires_at = min(hit.expires_at, self._now())

    def assignments(self, hit_id: str, states: Sequence[AssignmentState] = ()) -> Iterator[SubmittedAssignment]:
        wanted = states or tuple(AssignmentState)
        return self._pages(
            "assignments", lambda: [one for one in self._hit(hit_id).works.values() if one.state in wanted]
        )

    def assignment(self, assignment_id: str) -> SubmittedAssignment:
        with self._call("assignment"):
            return self._work(assignment_id)

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        with self._call("approve"):
            self._decide(assignment_id, AssignmentState.APPROVED, feedback)

    def reject(self, assignment_id: str, reason: str) -> None:
        with self._call("reject"):
            if not reason.strip():
                raise CrowdRefused("a rejection needs a reason")
            self._decide(assignment_id, AssignmentState.REJECTED, reason)

    def override_rejection(self, assignment_id: str, feedback: str = "") -> None:
        with self._call("override_rejection"):
            work = self._work(assignment_id)
            if work.state is AssignmentState.REJECTED:
                hit = self._hit(work.hit_id)
                if self._now() - work.submitted_at > OVERRIDE_LIFE:
                    raise WrongCrowdState(f"{assignment_id} was submitted too long ago")
                self._must_afford(hit.place_cents)
                hit.works[assignment_id] = replace(work, state=AssignmentState.SUBMITTED)
            self._decide(assignment_id, AssignmentState.APPROVED, feedback)

    def bonus(self, order: BonusOrder) -> None:
        with self._call("bonus"):
            self._check(order.token)
            if order.cents < 1:
                raise CrowdRefused("a bonus must be at least 1 cent")
            if self._made_by("bonus", order.token):
                return
            if self._work(order.assignment_id).worker_id != order.worker_id:
                raise WrongCrowdState(f"{order.worker_id} did not hand in {order.assignment_id}")
            self._must_afford(self.bonus_price(order.cents).total_cents)
            paid = (order.worker_id, order.assignment_id, order.cents, order.reason, self._now())
            self._bonuses.append(PaidBonus(order.token.key, *paid))
            self._remember("bonus", order.token, order.assignment_id)

    def bonuses(self, *, hit_id: str = "", assignment_id: str = "") -> Iterator[PaidBonus]:
        if bool(hit_id) == bool(assignment_id):
            raise CrowdRefused("name a HIT or an assignment")

        def find() -> list[PaidBonus]:
            wanted = {assignment_id} if assignment_id else set(self._hit(hit_id).works)
            return [one for one in self._bonuses if one.assignment_id in wanted]

        return self._pages("bonuses", find)

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        with self._call("ensure_qualification"):
            made = CrowdQualification(f"QUAL{len(self._kinds) + 1:06}", name, description)
            found = next((one for one in self._kinds.values() if one.name == name), made)
            return self._kinds.setdefault(found.qualification_id, found)

    def grant(self, qualification_id: str, worker_id: str, score: int = 1) -> None:
        with self._call("grant"):
            self._kind(qualification_id)
            self.scores[qualification_id, worker_id] = score

    def revoke(self, qualification_id: str, worker_id: str, reason: str = "") -> None:
        with self._call("revoke"):
            self._kind(qualification_id)
            self.scores.pop((qualification_id, worker_id), None)

    def block(self, worker_id: str, reason: str) -> None:
        with self._call("block"):
            if not reason.strip():
                raise CrowdRefused("a block needs a reason")
            self._blocks[worker_id] = BlockedWorker(worker_id, reason)

    def unblock(self, worker_id: str, reason: str = "") -> None:
        with self._call("unblock"):
            self._blocks.pop(worker_id, None)

    def blocks(self) -> Iterator[BlockedWorker]:
        return self._pages("blocks", lambda: list(self._blocks.values()))

    def notify(self, worker_ids: Sequence[str], subject: str, text: str) -> list[UndeliveredMessage]:
        with self._call("notify"):
            # As on a marketplace, only workers who have worked for us can be messaged.
            known = {work.worker_id for hit in self._hits.values() for work in hit.works.values()}
            self.messages += [(one, subject, text) for one in worker_ids if one in known]
            return [UndeliveredMessage(one, "has never worked for us") for one in worker_ids if one not in known]

    def send_events(self, type_id: str, queue_url: str) -> None:
        with self._call("send_events"):
            if type_id not in self._types.values():
                raise NotOnCrowd(f"unknown HIT type {type_id}")
            if not queue_url.startswith(("http://", "https://")):
                raise CrowdRefused(f"{queue_url} is not the address of a queue")
            self.events[type_id] = queue_url
