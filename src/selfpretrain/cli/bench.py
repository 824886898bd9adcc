"""``spt bench``: time and memory of layers by length or width."""

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
        str, typer.Argument(help="Benchmark: attention (mixers by length) or lssl (LSSL and S4 by width).")
    ],
    mixers: Annotated[
        str, typer.Option(help="Mixers (`spt list mixers`), comma-separated, or all.")
    ] = "attention,s4",
    lengths: Annotated[
        str | None, typer.Option(help="Sequence lengths, comma-separated; 1k is 1024.")
    ] = None,
    widths: Annotated[
        str | None, typer.Option("--width", "--widths", help="Widths (channels), comma-separated.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Batch size.")] = 4,
    depth: Annotated[int, typer.Option(min=1, help="Number of stacked layers.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Use causal layers.")] = False,
    match: Annotated[
        str,
        typer.Option(help="Match layers by width, or by params (as many parameters as attention or LSSL)."),
    ] = "width",
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions; medians are reported.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of one measurement, in seconds.")] = 60,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting of a mixer, e.g. s4.states=256. Repeatable."),
    ] = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = Path("runs/bench"),
    as_json: Json = False,
) -> None:
    """Measure time and memory of layers, forward and backward, by length or width."""
    from ..mixers.common.own_network import check_own_networks
    from ..report.figures.scaling import table
    from ..training.benchmark import Setting, apply_settings, measure, parse_mixers, plan

    setting = Setting(batch, causal, workspace_of(out, device).device, limit, depth)
    made = apply_settings([resolve("mixers", name) for name in parse_mixers(mixers)], assignments(settings))
    check_own_networks(made)
    cells = plan(question, made, (lengths, widths), setting, match)
    report = measure(cells, repeats, out, Console(stderr=True, markup=False, soft_wrap=True).print)
    if as_json:
        print((out / "bench.json").read_text(encoding="utf-8"))
        return
    Console().print(table(report))
    say(f"figure: {out / 'bench.svg'}")
