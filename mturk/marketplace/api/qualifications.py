"""Operations on qualification types, and on the workers who hold them."""

from datetime import datetime

from sqlalchemy import or_, select

from mturk.marketplace.api.call import Call, Members
from mturk.marketplace.errors import EntityExists, EntityNotFound, InvalidParameter
from mturk.marketplace.hits import check_range
from mturk.marketplace.qualifications import BUILT_IN, LOCALE, WorkerScores
from mturk.marketplace.tables.base import entity_id
from mturk.marketplace.tables.people import Grant, GrantStatus, QualificationType

MAX_QUERY_WORDS = 50
UNSUPPORTED = ("Test", "AnswerKey", "TestDurationInSeconds")


def create_qualification_type(call: Call, members: Members) -> Members:
    """Create a qualification; names are unique per requester."""
    _refuse_tests(members)
    name = members["Name"].strip()
    check_range("Name", len(name), 1, 200, "characters")
    same = select(QualificationType).where(
        QualificationType.requester_id == call.requester.id,
        QualificationType.name == name,
        ~QualificationType.deleted,
    )
    if call.session.scalars(same).one_or_none():
        raise EntityExists(
            "QualificationTypeAlreadyExists", f"You have already created a QualificationType with the name {name}."
        )
    qualification = QualificationType(
        id=entity_id(),
        requester_id=call.requester.id,
        name=name,
        description=_description(members["Description"]),
        keywords=members.get("Keywords", ""),
        active=members["QualificationTypeStatus"] == "Active",
        created_at=call.now,
        retry_seconds=members.get("RetryDelayInSeconds"),
    )
    call.session.add(qualification)
    call.session.flush()
    return {"QualificationType": _type_members(qualification)}


def get_qualification_type(call: Call, members: Members) -> Members:
    """Return a qualification: the requester's own, an active one of another requester, or a built-in one."""
    key = members["QualificationTypeId"]
    if key in BUILT_IN:
        return {"QualificationType": _built_in(key, call.now)}
    active = select(QualificationType).where(
        QualificationType.id == key, QualificationType.active, ~QualificationType.deleted
    )
    qualification = call.session.scalars(active).one_or_none() or call.qualification(key)
    return {"QualificationType": _type_members(qualification)}


def update_qualification_type(call: Call, members: Members) -> Members:
    """Change the description or status of a qualification."""
    _refuse_tests(members)
    qualification = call.qualification(members["QualificationTypeId"])
    if "Description" in members:
        qualification.description = _description(members["Description"])
    if "QualificationTypeStatus" in members:
        qualification.active = members["QualificationTypeStatus"] == "Active"
    if "RetryDelayInSeconds" in members:
        qualification.retry_seconds = members["RetryDelayInSeconds"]
    call.session.flush()
    return {"QualificationType": _type_members(qualification)}


def delete_qualification_type(call: Call, members: Members) -> Members:
    """Delete a qualification; its name can be used again."""
    qualification = call.qualification(members["QualificationTypeId"])
    qualification.deleted, qualification.active = True, False
    call.session.flush()
    return {}


def list_qualification_types(call: Call, members: Members) -> Members:
    """List qualifications whose name, description or keywords contain the words of the query."""
    query = select(QualificationType).where(~QualificationType.deleted)
    if members.get("MustBeOwnedByCaller"):
        query = query.where(QualificationType.requester_id == call.requester.id)
    else:
        query = query.where(or_(QualificationType.requester_id == call.requester.id, QualificationType.active))
    words = members.get("Query", "").split()
    check_range("Query", len(words), 0, MAX_QUERY_WORDS, "words")
    for word in words:
        query = query.where(
            or_(
                QualificationType.name.icontains(word, autoescape=True),
                QualificationType.description.icontains(word, autoescape=True),
                QualificationType.keywords.icontains(word, autoescape=True),
            )
        )
    return call.page(
        query, QualificationType.number, members, key="QualificationTypes", render=lambda row: _type_members(row[0])
    )


def associate_qualification_with_worker(call: Call, members: Members) -> Members:
    """Grant a qualification to a worker, or change the score."""
    qualification, worker = call.qualification(members["QualificationTypeId"]), call.worker(members["WorkerId"])
    grant = _grant(call, qualification.id, worker.id)
    if grant is None:
        grant = Grant(
            qualification_id=qualification.id,
            worker_id=worker.id,
            score=0,
            status=GrantStatus.GRANTED,
            granted_at=call.now,
        )
        call.session.add(grant)
    grant.score, grant.status, grant.granted_at = members.get("IntegerValue", 1), GrantStatus.GRANTED, call.now
    call.session.flush()
    return {}


def disassociate_qualification_from_worker(call: Call, members: Members) -> Members:
    """Revoke a qualification of a worker."""
    qualification, worker = call.qualification(members["QualificationTypeId"]), call.worker(members["WorkerId"])
    grant = _grant(call, qualification.id, worker.id)
    if grant is None or grant.status is GrantStatus.REVOKED:
        raise _not_granted(qualification.id, worker.id)
    grant.status = GrantStatus.REVOKED
    call.session.flush()
    return {}


def get_qualification_score(call: Call, members: Members) -> Members:
    """Return a worker's score, also in built-in qualifications."""
    key, worker = members["QualificationTypeId"], call.worker(members["WorkerId"])
    if key not in BUILT_IN:
        grant = _grant(call, call.qualification(key).id, worker.id)
        if grant is None:
            raise _not_granted(key, worker.id)
        return {"Qualification": _grant_members(grant)}
    score = WorkerScores(call.session, worker).score(key)
    if score is None:
        raise _not_granted(key, worker.id)
    value = {"LocaleValue": {"Country": score}} if key == LOCALE else {"IntegerValue": score}
    return {
        "Qualification": {
            "QualificationTypeId": key,
            "WorkerId": worker.id,
            "GrantTime": worker.created_at,
            "Status": "Granted",
            **value,
        }
    }


def list_workers_with_qualification_type(call: Call, members: Members) -> Members:
    """List the workers who have a qualification, or had it."""
    qualification = call.qualification(members["QualificationTypeId"])
    status = GrantStatus(members.get("Status", GrantStatus.GRANTED))
    query = select(Grant).where(Grant.qualification_id == qualification.id, Grant.status == status)
    return call.page(query, Grant.number, members, key="Qualifications", render=lambda row: _grant_members(row[0]))


def _grant(call: Call, qualification_id: str, worker_id: str) -> Grant | None:
    found = select(Grant).where(Grant.qualification_id == qualification_id, Grant.worker_id == worker_id)
    return call.session.scalars(found).one_or_none()


def _not_granted(qualification_id: str, worker_id: str) -> EntityNotFound:
    return EntityNotFound(
        "QualificationDoesNotExist", f"Worker {worker_id} does not have the qualification {qualification_id}."
    )


def _refuse_tests(members: Members) -> None:
    for name in UNSUPPORTED:
        if name in members:
            raise InvalidParameter(
                f"{name} is not supported here; grant the qualification with AssociateQualificationWithWorker"
            )
    if members.get("AutoGranted"):
        raise InvalidParameter(
            "AutoGranted is not supported here; grant the qualification with AssociateQualificationWithWorker"
        )


def _description(text: str) -> str:
    check_range("Description", len(text.strip()), 1, 2000, "characters")
    return text


def _type_members(qualification: QualificationType) -> Members:
    return {
        "QualificationTypeId": qualification.id,
        "CreationTime": qualification.created_at,
        "Name": qualification.name,
        "Description": qualification.description,
        "Keywords": qualification.keywords or None,
        "QualificationTypeStatus": "Active" if qualification.active else "Inactive",
        "RetryDelayInSeconds": qualification.retry_seconds,
        "IsRequestable": True,
        "AutoGranted": False,
    }


def _built_in(key: str, now: datetime) -> Members:
    name, description = BUILT_IN[key]
    return {
        "QualificationTypeId": key,
        "CreationTime": now,
        "Name": name,
        "Description": description,
        "QualificationTypeStatus": "Active",
        "IsRequestable": False,
        "AutoGranted": False,
    }


def _grant_members(grant: Grant) -> Members:
    return {
        "QualificationTypeId": grant.qualification_id,
        "WorkerId": grant.worker_id,
        "GrantTime": grant.granted_at,
        "IntegerValue": grant.score,
        "Status": str(grant.status),
    }
