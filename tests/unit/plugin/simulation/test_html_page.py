import pytest

from plugin.simulation.browser import HtmlPage, SimulationPageError

PAGE = """
<a href="/queue">Queue</a>
<form method="post" action="/groups/G1/accept">
  <input type="hidden" name="csrf" value="a&amp;b"><input type="text" name="q" value="no">
  <button aria-label="Accept Fool the model">Accept</button>
</form>
<input type="hidden" name="stray" value="of no form">
<iframe src="http://localhost:1/hits/7?key=k&amp;assignmentId=A1"></iframe>
<script>var other = 1;</script>
<script type="application/json" id="setup">{"kind": "create", "note": "\\u003c/script>"}</script>
"""


def test_forms_links_frames_and_the_setup_are_read_as_a_browser_reads_them() -> None:
    page = HtmlPage(PAGE)

    (form,) = page.forms
    assert (form.action, form.fields, form.button) == ("/groups/G1/accept", {"csrf": "a&b"}, "Accept Fool the model")
    assert page.frames == ["http://localhost:1/hits/7?key=k&assignmentId=A1"]
    assert page.links == ["/queue"]
    assert page.setup == {"kind": "create", "note": "</script>"}


def test_a_foreign_page_has_no_setup() -> None:
    with pytest.raises(SimulationPageError):
        _ = HtmlPage("<p>Bad gateway</p>").setup
