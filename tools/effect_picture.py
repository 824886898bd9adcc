"""Draw docs/effect.svg, the picture of README.md, from the table of the demo there.

    python tools/effect_picture.py

A bar for every arm of every architecture; the numbers are also in the picture's description.
"""

import re
from pathlib import Path

from selfpretrain.report.figures import charts, style

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "effect.svg"
ARMS = ("scratch", "scratch, tied compute", "SPT")
NUMBER = re.compile(r"\d+\.\d")


def scores(page: str) -> dict[str, tuple[float, ...]]:
    """The three scores of every architecture, as the table with these arms in its head has them."""
    head = f"| | {' | '.join(ARMS)} |"
    rows = page.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {
        first.partition(",")[0].strip(): tuple(float(NUMBER.findall(cell)[0]) for cell in others[:3])
        for first, *others in cells
    }


def picture(found: dict[str, tuple[float, ...]]) -> str:
    """The picture as SVG on white."""
    lines = tuple(
        charts.PanelLine(arm, at, tuple(row[at] for row in found.values()), *[(None,) * len(found)] * 2)
        for at, arm in enumerate(ARMS)
    )
    panel = charts.Panel(
        "Paths: is it one curve? 50 % is chance", "accuracy in %", tuple(found), lines, (0.0, 100.0)
    )
    said = "; ".join(f"{row} {' '.join(map(str, values))}" for row, values in found.items())
    head, tag, rest = style.on_paper(charts.bars(panel)).partition("<metadata>")
    return f"{head}<desc>{said}</desc>\n {tag}{rest}"


def main() -> None:
    """Draw it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    PICTURE.write_text(picture(scores(page)), encoding="utf-8")


if __name__ == "__main__":
    main()
