"""What differs between kinds of crowds: fees, currency, page parameters, idempotency, qualifications, limits.

A profile is plain data. It is available without a connection, so that costs can be estimated and pages can be served
before anything is posted.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True)
class Price:
    """What one payment costs: the amount that the worker receives, and the marketplace's fee."""

    cents: int
    fee_cents: int

    @property
    def total_cents(self) -> int:
        """The amount with the fee."""
        return self.cents + self.fee_cents


@dataclass(frozen=True)
class FeeSchedule:
    """The marketplace's fees, in percent of what workers receive, rounded up to whole cents.

    A HIT with more than `assignments_before_fee_rises` assignments costs `large_hit_percent` more on its rewards; None
    means that the fee never rises. The defaults are the estimate for tasks that are not on any crowd yet.
    """

    percent: int = 20
    minimum_cents: int = 1
    assignments_before_fee_rises: int | None = 9
    large_hit_percent: int = 20

    def rises_for(self, assignments: int) -> bool:
        """Return whether a HIT with this many assignments pays the higher fee."""
        return self.assignments_before_fee_rises is not None and assignments > self.assignments_before_fee_rises

    def reward(self, cents: int, assignments: int = 1, *, surcharge_percent: int = 0) -> Price:
        """Return the price of one assignment of a HIT that has this many of them."""
        large = self.large_hit_percent if self.rises_for(assignments) else 0
        return Price(cents, self._fee(cents, self.percent + large + surcharge_percent))

    def bonus(self, cents: int) -> Price:
        """Return the price of a bonus; a bonus of 0 costs nothing."""
        return Price(cents, self._fee(cents, self.percent) if cents else 0)

    def _fee(self, cents: int, percent: int) -> int:
        if cents < 0:
            raise ValueError(f"an amount of {cents} cents is negative")
        return max(self.minimum_cents, -(-cents * percent // 100))


@dataclass(frozen=True)
class PageVisit:
    """Who opens the page of a HIT, as the crowd's query parameters claim; nothing of this is proven."""

    hit_id: str
    assignment_id: str
    worker_id: str
    submit_to: str
    is_preview: bool
    # The worker's other HITs of this requester; None if the crowd does not name them.
    held: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PageParameters:
    """The query parameters by which a HIT's page learns who opens it.

    A visit without an assignment id, or with `preview_assignment`, is a preview. `submit_to` is empty for crowds whose
    pages do not submit to the marketplace. `proof` carries the marketplace's signature over the other parameters; it is
    empty for crowds that cannot prove who accepted a HIT. `held` names the worker's other HITs, separated by commas.
    """

    hit: str
    assignment: str
    worker: str
    submit_to: str = ""
    preview_assignment: str = ""
    proof: str = ""
    held: str = ""

    def read(self, query: Mapping[str, str]) -> PageVisit:
        """Return the visit that a page's query describes."""
        assignment = query.get(self.assignment, "") or self.preview_assignment
        return PageVisit(
            hit_id=query.get(self.hit, ""),
            assignment_id=assignment,
            worker_id=query.get(self.worker, ""),
            submit_to=query.get(self.submit_to, "") if self.submit_to else "",
            is_preview=assignment == self.preview_assignment,
            held=tuple(filter(None, query[self.held].split(","))) if self.held and self.held in query else None,
        )

    def preview_query(self) -> dict[str, str]:
        """Return the query parameters of a preview."""
        return {self.assignment: self.preview_assignment}


@dataclass(frozen=True)
class ReturnForm:
    """The request that a finished page makes to return the worker to the marketplace."""

    method: str
    url: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class FormReturn:
    """The page posts a form below the address that it was opened with."""

    path: str
    assignment_field: str

    def form(self, submit_to: str, assignment_id: str, answers: Mapping[str, str]) -> ReturnForm:
        """Return the form that submits an assignment, with the answers that the marketplace stores."""
        fields = {self.assignment_field: assignment_id, **answers}
        return ReturnForm("POST", f"{submit_to.rstrip('/')}{self.path}", fields)


@dataclass(frozen=True)
class CompletionLink:
    """The page sends the worker to a fixed address, with a completion code that the study defines."""

    url: str
    code_field: str
    code: str = ""

    def form(self, _submit_to: str, _assignment_id: str, _answers: Mapping[str, str]) -> ReturnForm:
        """Return the link, with the completion code as its only field."""
        return ReturnForm("GET", self.url, {self.code_field: self.code})


class BuiltInQualification(enum.StrEnum):
    """Qualifications that the crowd itself maintains."""

    APPROVAL_RATE = "approval_rate"
    HITS_APPROVED = "hits_approved"
    LOCALE = "locale"
    ADULT = "adult"


@dataclass(frozen=True)
class CrowdLimits:
    """The texts that a crowd accepts, in characters."""

    token_length: int = 64
    title_length: int = 128
    description_length: int = 2_000
    rejection_reason_minimum: int = 1
    message_subject_length: int = 200
    message_text_length: int = 4_096


@dataclass(frozen=True)
class CrowdProfile:
    """One kind of crowd.

    `token_lifetime` is how long a repeated call with the same token is done only once; None means never, so that a
    payment in doubt must be held for a person. `grants_qualifications` says whether a task can have its own.
    """

    kind: str
    currency: str
    fees: FeeSchedule
    page: PageParameters
    worker_return: FormReturn | CompletionLink
    token_lifetime: timedelta | None
    grants_qualifications: bool = True
    built_in_qualifications: frozenset[BuiltInQualification] = frozenset()
    limits: CrowdLimits = field(default_factory=CrowdLimits)
