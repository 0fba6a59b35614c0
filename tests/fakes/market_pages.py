"""What tests read from the pages of the worker site, and the forms that they send."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def csrf(page: str) -> str:
    """Return the CSRF token of a page's forms."""
    found = _CSRF.search(page)
    assert found, f"there is no form on this page: {page[:2_000]}"
    return found[1]


def has_code(response: TestResponse, code: str) -> bool:
    """Return whether a status page has this code."""
    return f'data-code="{code}"' in response.text


def accept_task(browser: FlaskClient, group_id: str) -> str:
    """Accept a HIT of a group; return the assignment's id."""
    response = browser.post(f"/groups/{group_id}/accept", data={"csrf": csrf(browser.get("/account").text)})
    assert response.status_code == 303, response.text
    return urlsplit(response.location).path.removeprefix("/work/")


def frame_address(page: str) -> str:
    """Return the URL of the frame on a page."""
    return unescape(page.partition("<iframe")[2].partition(' src="')[2].partition('"')[0])


def submit_path(browser: FlaskClient, assignment_id: str) -> str:
    """Return the path to which the requester's page posts the answers of an accepted assignment."""
    query = urlsplit(frame_address(browser.get(f"/work/{assignment_id}").text)).query
    submit_to = urlsplit(parse_qs(query)["turkSubmitTo"][0]).path
    assert submit_to.startswith("/s/")
    return f"{submit_to}/mturk/externalSubmit"
