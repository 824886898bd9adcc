"""``spt bench``: time and memory of layers."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..registry import resolve
from .options import Device, Json, assignments, workspace_of
from .printing import say

app = typer.Typer()


@app.command()
def bench(
    question: Annotated[
        str, typer.Argument(help="attention: mixers at growing length; lssl: LSSL and S4 at growing width.")
    ],
    mixers: Annotated[str, typer.Option(help="Mixers, comma-separated, or all.")] = "attention,s4",
    lengths: Annotated[str | None, typer.Option(help="Positions, comma-separated; 1k is 1024.")] = None,
    widths: Annotated[str | None, typer.Option("--width", "--widths", help="Channels.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences per pass.")] = 4,
    depth: Annotated[int, typer.Option(min=1, help="Layers on top of each other.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="No position sees later ones.")] = False,
    match: Annotated[
        str, typer.Option(help="width: the same for all; params: as many parameters as attention or LSSL.")
    ] = "width",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over everything; medians are shown.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that one reading may take.")] = 60,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="Change a setting of a mixer: s4.states=256.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder for table and figure.")] = Path("runs/bench"),
    as_json: Json = False,
) -> None:
    """Measure time and memory of layers, forward and backward, as length or width grows."""
    from ..report.figures.scaling import table
    from ..training.benchmark import Setting, amended, asked, measure, plan

    setting = Setting(batch, causal, workspace_of(out, device, "1", False).device, limit, depth)
    made = amended([resolve("mixers", name) for name in asked(mixers)], assignments(settings))
    cells = plan(question, made, (lengths, widths), setting, match)
    report = measure(cells, repeats, out, Console(stderr=True, markup=False, soft_wrap=True).print)
    if as_json:
        print((out / "bench.json").read_text(encoding="utf-8"))
        return
    Console().print(table(report))
    say(f"figure: {out / 'bench.svg'}")
