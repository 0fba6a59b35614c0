"""axe-core on a page of ours; Label Studio's own markup, which we show but do not write, is left out."""

from importlib.resources import files

from playwright.sync_api import Frame

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
LOOK = """async () => {
    const found = await axe.run({exclude: [["#editor"]]}, {resultTypes: ["violations"]});
    return found.violations.filter(({impact}) => ["serious", "critical"].includes(impact))
        .flatMap(({id, help, nodes}) => nodes.map(({html}) => `${id}: ${help}: ${html}`));
}"""


def serious_problems(frame: Frame) -> list[str]:
    """Return the serious accessibility problems of the page."""
    # As the browser's own tools do it, because the page's policy forbids foreign scripts.
    frame.evaluate(f"() => {{ {AXE} }}")
    found: list[str] = frame.evaluate(LOOK)
    return found
