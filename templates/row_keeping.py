"""What keeps a row of a pack or of an uploaded file, or its id, from being kept and shown as it is."""

import json
import re
from collections.abc import Mapping
from typing import Any

from common.text import count
from templates.wrong_values import shown_json

LONGEST_ID = 180
# What the program adds to an id when a text changes under it.
CHANGED = re.compile(r"@[0-9a-f]{12}$")
# What ends a line, moves a cursor or turns text around.
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def text_problems(row: Mapping[str, Any]) -> list[str]:
    """What no database keeps, with its cure."""
    problems = []
    text = json.dumps(row, ensure_ascii=False)
    if "\\u0000" in text.replace("\\\\", ""):
        problems.append("has the character NUL in it; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.append("has half of a character (a lone surrogate) in it; remove it")
    return problems


def id_problems(row_id: str) -> list[str]:
    """What keeps an id from being read and copied as one line of text, with its cure."""
    found = _UNSHOWN.search(row_id)
    cure = "write ids in one line of plain text"
    return [f"its id has the character {json.dumps(found[0])} in it; {cure}"] if found else []


def context_id_problems(row_id: str) -> list[str]:
    """The same for a context's id, which the program lengthens and people look for."""
    if not 0 < len(row_id) <= LONGEST_ID:
        return [f"its id has {count(len(row_id), 'character')}; give it 1 to {LONGEST_ID}"]
    if CHANGED.search(row_id):
        return [f"id {shown_json(row_id)} ends as ids do that the program makes; give it another"]
    if unseen := id_problems(row_id):
        return unseen
    return [f"id {shown_json(row_id)} begins or ends with a space; remove it"] if row_id != row_id.strip() else []
