"""JSON lines say what the table says, whatever people typed."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from outfox.json_lines import json_lines

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VOTE = pa.struct([("worker", pa.string()), ("shares", pa.struct([("yes", pa.float64())]))])
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("fooled", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("votes", pa.list_(VOTE)),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "text": TEXTS,
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "fooled": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
        "votes": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {
                    "worker": TEXTS,
                    "shares": st.none()
                    | st.fixed_dictionaries({"yes": st.floats(allow_nan=False, allow_infinity=False)}),
                }
            ),
            max_size=3,
        ),
    }
)


def read(content: memoryview) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in bytes(content).decode().split("\n")[:-1]]
    for row in rows:
        row["at"] = datetime.fromisoformat(row["at"]) if row["at"] else None
    return rows


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, max_size=6))
def test_every_row_survives_the_round_trip(rows: list[dict[str, Any]]) -> None:
    assert read(json_lines(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))) == rows


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(2, 4))
def test_equal_rows_survive_the_round_trip(row: dict[str, Any], times: int) -> None:
    assert read(json_lines(pa.RecordBatch.from_pylist([row] * times, schema=SCHEMA))) == [row] * times


def test_a_slice_is_written_without_the_other_rows() -> None:
    rows: list[dict[str, Any]] = [
        {"text": f"row {number}", "number": number, "fooled": None, "at": None, "votes": []} for number in range(9)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    assert read(json_lines(batch.slice(3, 2))) == rows[3:5]


def test_line_breaks_in_texts_do_not_end_a_line() -> None:
    row = {"text": "one\ntwo\r\u2028three", "number": 1, "fooled": True, "at": None, "votes": None}
    assert bytes(json_lines(pa.RecordBatch.from_pylist([row, row], schema=SCHEMA))).count(b"\n") == 2
