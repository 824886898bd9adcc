"""``spt check`` and ``spt bench``: tests of a mixer, and time and memory of layers."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..errors import SpecError
from ..registry import resolve
from .options import Device, Json, assignments, workspace_of
from .printing import print_json, say, show_facts

if TYPE_CHECKING:
    from ..mixers.base import Mixer
    from ..report.figures.scaling import Report
    from ..training.mixer_checks import Check

app = typer.Typer()
COLOURS = {"ok": "green", "fails": "red", "warns": "yellow", "not applicable": "dim"}


@app.command()
def check(
    mixer: Annotated[
        str,
        typer.Argument(
            help="Mixer (`spt list mixers`), package.module:callable, or hf-model:FOLDER.", metavar="MIXER"
        ),
    ],
    width: Annotated[int, typer.Option(min=1, help="Width: number of channels.")] = 32,
    length: Annotated[int, typer.Option(min=2, help="Length of the test sequences.")] = 256,
    causal: Annotated[
        bool, typer.Option("--causal", help="Check only the causal form; default: every form it has.")
    ] = False,
    lengths: Annotated[
        str, typer.Option(help="Lengths to benchmark, comma-separated; empty for none.")
    ] = "256,512,1k",
    as_json: Json = False,
) -> None:
    """Check a mixer for leaks and limits, and benchmark it; exit code 1 if a check fails.

    A callable of your own returns a torch module, see docs/add/network.md. If it does not name ``causal``,
    its causal form is checked with --causal alone.
    """
    from ..mixers.base import LayerContext
    from ..mixers.common.own_network import OwnLayer
    from ..training import mixer_checks

    made = _mixer(mixer)
    both = made.causal and (not isinstance(made, OwnLayer) or "causal" in made.keywords)
    forms = [True] if causal else [False, True] if both else [False]
    checks = [
        mixer_checks.check(made, LayerContext(width, length, form, made.positions == "rotary"))
        for form in forms
    ]
    runs = any(check.passed for check in checks)
    measured = _measured(made, lengths if runs else "", width, causal)
    if as_json:
        plain = [asdict(check) | {"objectives": check.objectives} for check in checks]
        readings = [asdict(reading) for reading in measured.readings]
        print_json({"checks": plain, "readings": readings})
    else:
        _show(made, checks, measured)
    raise typer.Exit(int(any(check.failures for check in checks)))


def _mixer(name: str) -> "Mixer":
    from ..mixers.base import Mixer

    made = resolve("mixers", name)
    if not isinstance(made, Mixer):
        raise SpecError(f"{name} is not a mixer")
    return made


def _measured(mixer: "Mixer", lengths: str, width: int, causal: bool) -> "Report":
    from ..report.figures.scaling import Report
    from ..training import benchmark

    sizes = benchmark.parse_sizes(lengths) if lengths else []
    cells = benchmark.by_length([mixer], sizes, width, benchmark.Setting(causal=causal))
    return Report(tuple(benchmark.measure_once(cell) for cell in cells))


def _show(mixer: "Mixer", checks: "list[Check]", measured: "Report") -> None:
    from ..report.figures.scaling import table

    for check in checks:
        flops = "" if check.flops is None else f", {check.flops:.3g} FLOPs forward and backward"
        form = "causal" if check.place.causal else "bidirectional"
        size = (
            f"width {check.place.width}, length {check.place.length}, {check.parameters:,} parameters{flops}"
        )
        say(f"{check.mixer}, {form}: {size}", style="bold")
        show_facts(((p.name, Text(p.result, COLOURS[p.result]), p.said) for p in check.probes), "")
        no = "no" if check.denoises else "no, it answers once per sequence; from scratch: classify, regress"
        say(f"can be pretrained: {', '.join(check.objectives) or no}\n")
    if mixer.published:
        say(f"note: {mixer.published}")
    if measured.readings:
        Console().print(table(measured))


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
