"""axe-core on a page of ours; Label Studio's own markup, which we show but do not write, is left out."""

from importlib.resources import files

from playwright.sync_api import Frame

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
LOOK = """async () => {
    const found = await axe.run({exclude: [["#editor"]]}, {resultTypes: ["violations"], iframes: false});
    return found.violations.flatMap(({id, impact, help, nodes}) =>
        nodes.map(({html}) => ({impact, text: `${id}: ${help}: ${html}`})));
}"""


def violations(frame: Frame) -> list[str]:
    """Return every rule of axe-core that the page violates, with the element."""
    return [one["text"] for one in _found(frame)]


def serious_problems(frame: Frame) -> list[str]:
    """Return the serious accessibility problems of the page."""
    return [one["text"] for one in _found(frame) if one["impact"] in ("serious", "critical")]


def _found(frame: Frame) -> list[dict[str, str]]:
    # As the browser's own tools do it, because the page's policy forbids foreign scripts.
    frame.evaluate(f"() => {{ {AXE} }}")
    found: list[dict[str, str]] = frame.evaluate(LOOK)
    return found
