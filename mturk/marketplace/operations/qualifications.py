"""Qualifications, and who has them."""

from datetime import datetime

from sqlalchemy import or_, select

from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.hits import within
from mturk.marketplace.ids import entity_id
from mturk.marketplace.operations.call import Call, Members, Operation
from mturk.marketplace.qualifying import BUILT_IN, LOCALE, Record
from mturk.marketplace.tables import Grant, GrantStatus, QualificationType

MOST_WORDS = 50
NOT_HERE = ("Test", "AnswerKey", "TestDurationInSeconds")


def create_qualification_type(call: Call, members: Members) -> Members:
    """A qualification that the requester grants; names are unique."""
    _refuse_tests(members)
    name = members["Name"].strip()
    within("Name", len(name), 1, 200, "characters")
    same = select(QualificationType).where(
        QualificationType.requester_id == call.requester.id,
        QualificationType.name == name,
        ~QualificationType.deleted,
    )
    if call.session.scalars(same).one_or_none():
        raise MarketError(
            "QualificationTypeAlreadyExists", f"You have already created a QualificationType with the name {name}."
        )
    kind = QualificationType(
        id=entity_id(),
        requester_id=call.requester.id,
        name=name,
        description=_description(members["Description"]),
        keywords=members.get("Keywords", ""),
        active=members["QualificationTypeStatus"] == "Active",
        created_at=call.now,
        retry_seconds=members.get("RetryDelayInSeconds"),
    )
    call.session.add(kind)
    call.session.flush()
    return {"QualificationType": _type_members(kind)}


def get_qualification_type(call: Call, members: Members) -> Members:
    """One qualification: the requester's own, another's that is active, or one that the marketplace keeps."""
    key = members["QualificationTypeId"]
    if key in BUILT_IN:
        return {"QualificationType": _built_in(key, call.now)}
    active = select(QualificationType).where(
        QualificationType.id == key, QualificationType.active, ~QualificationType.deleted
    )
    kind = call.session.scalars(active).one_or_none() or call.qualification(key)
    return {"QualificationType": _type_members(kind)}


def update_qualification_type(call: Call, members: Members) -> Members:
    """Another description or status."""
    _refuse_tests(members)
    kind = call.qualification(members["QualificationTypeId"])
    if "Description" in members:
        kind.description = _description(members["Description"])
    if "QualificationTypeStatus" in members:
        kind.active = members["QualificationTypeStatus"] == "Active"
    if "RetryDelayInSeconds" in members:
        kind.retry_seconds = members["RetryDelayInSeconds"]
    call.session.flush()
    return {"QualificationType": _type_members(kind)}


def delete_qualification_type(call: Call, members: Members) -> Members:
    """It can be neither granted nor asked for any more, and its name is free."""
    kind = call.qualification(members["QualificationTypeId"])
    kind.deleted, kind.active = True, False
    call.session.flush()
    return {}


def list_qualification_types(call: Call, members: Members) -> Members:
    """Qualifications whose name or description has the words of the query."""
    query = select(QualificationType).where(~QualificationType.deleted)
    if members.get("MustBeOwnedByCaller"):
        query = query.where(QualificationType.requester_id == call.requester.id)
    else:
        query = query.where(or_(QualificationType.requester_id == call.requester.id, QualificationType.active))
    words = members.get("Query", "").split()
    within("Query", len(words), 0, MOST_WORDS, "words")
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
    """A worker gets a qualification, or another score in it."""
    kind, worker = call.qualification(members["QualificationTypeId"]), call.worker(members["WorkerId"])
    grant = _grant(call, kind.id, worker.id)
    if grant is None:
        grant = Grant(
            qualification_id=kind.id, worker_id=worker.id, score=0, status=GrantStatus.GRANTED, granted_at=call.now
        )
        call.session.add(grant)
    grant.score, grant.status, grant.granted_at = members.get("IntegerValue", 1), GrantStatus.GRANTED, call.now
    call.session.flush()
    return {}


def disassociate_qualification_from_worker(call: Call, members: Members) -> Members:
    """A worker loses a qualification."""
    kind, worker = call.qualification(members["QualificationTypeId"]), call.worker(members["WorkerId"])
    grant = _grant(call, kind.id, worker.id)
    if grant is None or grant.status is GrantStatus.REVOKED:
        raise _not_held(kind.id, worker.id)
    grant.status = GrantStatus.REVOKED
    call.session.flush()
    return {}


def get_qualification_score(call: Call, members: Members) -> Members:
    """A worker's score, also in what the marketplace keeps by itself."""
    key, worker = members["QualificationTypeId"], call.worker(members["WorkerId"])
    if key not in BUILT_IN:
        grant = _grant(call, call.qualification(key).id, worker.id)
        if grant is None:
            raise _not_held(key, worker.id)
        return {"Qualification": _grant_members(grant)}
    score = Record(call.session, worker).score(key)
    if score is None:
        raise _not_held(key, worker.id)
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
    """Who has a qualification, or had it."""
    kind = call.qualification(members["QualificationTypeId"])
    status = GrantStatus(members.get("Status", GrantStatus.GRANTED))
    query = select(Grant).where(Grant.qualification_id == kind.id, Grant.status == status)
    return call.page(query, Grant.number, members, key="Qualifications", render=lambda row: _grant_members(row[0]))


def _grant(call: Call, qualification_id: str, worker_id: str) -> Grant | None:
    found = select(Grant).where(Grant.qualification_id == qualification_id, Grant.worker_id == worker_id)
    return call.session.scalars(found).one_or_none()


def _not_held(qualification_id: str, worker_id: str) -> MarketError:
    return MarketError(
        "QualificationDoesNotExist", f"Worker {worker_id} does not have the qualification {qualification_id}."
    )


def _refuse_tests(members: Members) -> None:
    for name in NOT_HERE:
        if name in members:
            raise bad_parameter(f"{name} is not supported here; grant it with AssociateQualificationWithWorker")
    if members.get("AutoGranted"):
        raise bad_parameter("AutoGranted is not supported here; grant it with AssociateQualificationWithWorker")


def _description(text: str) -> str:
    within("Description", len(text.strip()), 1, 2000, "characters")
    return text


def _type_members(kind: QualificationType) -> Members:
    return {
        "QualificationTypeId": kind.id,
        "CreationTime": kind.created_at,
        "Name": kind.name,
        "Description": kind.description,
        "Keywords": kind.keywords or None,
        "QualificationTypeStatus": "Active" if kind.active else "Inactive",
        "RetryDelayInSeconds": kind.retry_seconds,
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


READS: dict[str, Operation] = {
    "GetQualificationType": get_qualification_type,
    "ListQualificationTypes": list_qualification_types,
    "GetQualificationScore": get_qualification_score,
    "ListWorkersWithQualificationType": list_workers_with_qualification_type,
}
WRITES: dict[str, Operation] = {
    "CreateQualificationType": create_qualification_type,
    "UpdateQualificationType": update_qualification_type,
    "DeleteQualificationType": delete_qualification_type,
    "AssociateQualificationWithWorker": associate_qualification_with_worker,
    "DisassociateQualificationFromWorker": disassociate_qualification_from_worker,
}
