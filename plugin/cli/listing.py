"""Tables that can be read and copied from at any width: ids and words stay whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDE_GAP, NARROW_GAP = 2, 1
INDENT = 2


@dataclass(frozen=True)
class Listing:
    """Rows under heads: side by side where every word fits so, else each row as a paragraph of its own."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        longest = [max(map(cell_len, self._column(place))) for place in range(len(self.columns))]
        # A narrower gap is better than a second line, and a second line better than no table.
        for least in (longest, self._words()):
            for gap in (WIDE_GAP, NARROW_GAP):
                widths = _shared(least, longest, options.max_width - gap * (len(least) - 1))
                if widths:
                    yield self._table(widths, gap)
                    return
        for row in self.rows:
            yield from self._paragraph(row)

    def _column(self, place: int) -> Iterator[str]:
        yield self.columns[place]
        yield from (row[place] for row in self.rows)

    def _words(self) -> list[int]:
        """How wide the longest word of each column is."""
        return [
            max((cell_len(word) for cell in self._column(place) for word in cell.split()), default=0)
            for place in range(len(self.columns))
        ]

    def _table(self, widths: Sequence[int], gap: int) -> Table:
        built = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        for column, width, numeric in zip(self.columns, widths, self.numeric, strict=True):
            built.add_column(Text(column), justify="right" if numeric else "left", width=width, overflow="fold")
        for row in self.rows:
            built.add_row(*map(Text, row))
        return built

    def _paragraph(self, row: Sequence[str]) -> Iterator[RenderableType]:
        """The first cell alone on its line, so that it can be copied, but for numbers; what is empty is not told."""
        told = [f"{column} {cell}".lstrip() for column, cell in zip(self.columns[1:], row[1:], strict=True) if cell]
        yield Text(f"{self.columns[0]} {row[0]}" if self.numeric[0] else row[0], style="bold", overflow="fold")
        yield Padding(Text(" · ".join(told), overflow="fold"), (0, 0, 0, INDENT))


def _shared(least: Sequence[int], longest: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room, from the least that each needs; none where that is too much."""
    widths, left = list(least), room - sum(least)
    if left < 0:
        return []
    lacking = sorted(range(len(widths)), key=lambda place: longest[place] - widths[place])
    for done, place in enumerate(lacking):
        # Whoever lacks little is made whole first; the rest is shared evenly by those with long texts.
        more = min(longest[place] - widths[place], left // (len(lacking) - done))
        widths[place] += more
        left -= more
    return widths
