"""What MTurk, and every marketplace that implements its API, charges, guarantees and accepts."""

from dataclasses import replace
from datetime import timedelta

from crowd.profile import BuiltInQualification, CrowdProfile, FeeSchedule, FormReturn, PageParameters

# Requiring the Masters qualification costs this much more of the reward.
MASTERS_PERCENT = 5
# Pages post a finished assignment to this path below the address that they were opened with.
SUBMIT_PATH = "/mturk/externalSubmit"

MTURK = CrowdProfile(
    kind="mturk",
    currency="USD",
    fees=FeeSchedule(percent=20, minimum_cents=1, assignments_before_fee_rises=9, large_hit_percent=20),
    page=PageParameters(
        hit="hitId",
        assignment="assignmentId",
        worker="workerId",
        submit_to="turkSubmitTo",
        preview_assignment="ASSIGNMENT_ID_NOT_AVAILABLE",
    ),
    worker_return=FormReturn(path=SUBMIT_PATH, assignment_field="assignmentId"),
    token_lifetime=timedelta(hours=24),
    built_in_qualifications=frozenset(BuiltInQualification),
)

# `outfox marketplace`: MTurk's protocol, and two parameters more that other pages ignore.
PROOF_PARAMETER, HELD_PARAMETER = "acceptanceProof", "heldHits"
_PAGE = replace(MTURK.page, proof=PROOF_PARAMETER, held=HELD_PARAMETER)
MARKETPLACE = replace(MTURK, kind="marketplace", page=_PAGE)
