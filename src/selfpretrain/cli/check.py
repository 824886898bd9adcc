"""Commands ``check`` and ``bench``: tests of a mixer, and time and memory of layers as in the S4 paper."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import SpecError, nearest
from ..registry import name_of, resolve
from .options import Device, Json, assignments, workspace_of
from .printing import print_json, say, show_facts, wide

if TYPE_CHECKING:
    from ..mixers.base import Mixer
    from ..report.figures.scaling import Measurement

app = typer.Typer()
COLOURS = {"ok": "green", "fails": "red", "warns": "yellow", "not applicable": "dim"}
TRANSFORMERS = "attention,performer,linear,s4"
"""The mixers of Gu et al. (2022), S4, table 3; the first is the reference."""


@app.command()
def check(
    mixer: Annotated[
        str,
        typer.Argument(
            help="Mixer (`selfpretrain list mixers`), package.module:callable, or hf-model:FOLDER.",
            metavar="MIXER",
        ),
    ],
    width: Annotated[int, typer.Option(min=1, help="Width: number of channels.")] = 32,
    length: Annotated[int, typer.Option(min=2, help="Length of the test sequences.")] = 256,
    causal: Annotated[
        bool, typer.Option("--causal", help="Check only the causal form; default: every form it has.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a mixer for leaks and limits, and count its cost; exit code 1 if a check fails.

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
    if as_json:
        print_json({"checks": [asdict(check) | {"objectives": check.objectives} for check in checks]})
    for check in [] if as_json else checks:
        flops = "" if check.flops is None else f", {check.flops:.3g} FLOPs forward and backward"
        form = "causal" if check.place.causal else "bidirectional"
        size = f"width {width}, length {length}, {check.parameters:,} parameters{flops}"
        say(f"{check.mixer}, {form}: {size}", style="bold")
        show_facts(((p.name, Text(p.result, COLOURS[p.result]), p.said) for p in check.probes), "")
        no = "no" if check.denoises else "no, it answers once per sequence; from scratch: classify, regress"
        say(f"can be pretrained: {', '.join(check.objectives) or no}\n")
    if made.published and not as_json:
        say(f"note: {made.published}")
    raise typer.Exit(int(any(check.failures for check in checks)))


@app.command()
def bench(
    question: Annotated[
        str, typer.Argument(help="Benchmark: attention (mixers by length) or lssl (LSSL and S4 by width).")
    ],
    mixers: Annotated[
        str | None,
        typer.Option(
            help=f"Mixers of attention, comma-separated; the first is the reference. Default: {TRANSFORMERS}."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Lengths (attention) or widths (lssl), comma-separated; 1k is 1024."),
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Width of attention; default: 256.")] = None,
    length: Annotated[int | None, typer.Option(min=1, help="Length of lssl; default: 1024.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Batch size.")] = 1,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Number of layers; default: 4 for attention, 1 for lssl.")
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Use causal layers.")] = False,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of one measurement, in seconds.")] = 60,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting of a mixer, e.g. s4.states=64. Repeatable."),
    ] = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder for bench.json and the figure.")] = Path("runs/bench"),
    as_json: Json = False,
) -> None:
    """Measure time and memory of layers, forward and backward, as in appendix D.1 of the S4 paper.

    attention: efficient Transformers and S4 by length, relative to a Transformer (table 3). lssl: LSSL and S4
    with as many parameters by width (table 2).
    """
    from ..training import benchmark

    if question not in ("attention", "lssl"):
        raise SpecError(f"there is no benchmark {question!r}{nearest(question, ('attention', 'lssl'))}")
    by_length = question == "attention"
    of_attention = {"--mixers": mixers, "--set": settings, "--width": width}
    not_asked = {"--length": length} if by_length else of_attention
    for flag, value in not_asked.items():
        if value:
            raise SpecError(f"{flag} is not for the benchmark {question}; leave it out")
    made = _mixers(mixers or TRANSFORMERS, assignments(settings)) if by_length else [_mixer("lssl")]
    device = workspace_of(out, device).device
    depth = depth or (4 if by_length else 1)
    like = benchmark.Trial(made[0], width or 256, length or 1024, batch, depth, causal, device)
    numbers = _sizes(sizes or ("1k,4k" if by_length else "64,128,256"))
    trials = benchmark.by_length(made, numbers, like) if by_length else benchmark.by_width(numbers, like)
    log = Console(stderr=True, markup=False, soft_wrap=True).print
    found = benchmark.run(trials, limit, out, log)
    if as_json:
        print_json(json.loads((out / "bench.json").read_text(encoding="utf-8")))
    else:
        _show_measurements(found)
        say(f"figure: {out / 'bench.svg'}")


def _mixer(name: str) -> "Mixer":
    from ..mixers.base import Mixer

    made = resolve("mixers", name)
    if not isinstance(made, Mixer):
        raise SpecError(f"{name} is not a mixer; `selfpretrain list mixers` shows those that are here")
    return made


def _mixers(text: str, settings: dict[str, str]) -> "list[Mixer]":
    """Return mixers by their names with settings changed, e.g. ``{"s4.states": "64"}``.

    S4 has 256 states unless a setting says otherwise, as in the paper.
    """
    from ..config import with_setting
    from ..mixers.common.own_network import check_own_networks

    made = [_mixer(name.strip()) for name in text.split(",")]
    known = [name_of(mixer) for mixer in made]
    if len(set(known)) < len(known):
        raise SpecError(
            f"two of the mixers {', '.join(known)} have one name; measure them one after the other"
        )
    default = {"s4.states": "256"} if "s4" in known else {}
    for key, value in (default | settings).items():
        name, _, path = key.partition(".")
        if name not in known:
            raise SpecError(
                f"--set {key}: begin with one of the mixers ({', '.join(known)}), e.g. s4.states=64"
            )
        made = [with_setting(mixer, path, value) if name_of(mixer) == name else mixer for mixer in made]
    check_own_networks(made)
    return made


def _sizes(text: str) -> list[int]:
    """Parse comma-separated sizes: "512,1k" is [512, 1024].

    Raises:
        SpecError: if one of them is not an integer of at least 1.
    """
    sizes = []
    for word in text.lower().split(","):
        digits = word.strip().removesuffix("k").rstrip()
        if not digits.isdecimal() or int(digits) < 1:
            raise SpecError(f"size {word!r} is not a number; write for example 512,1k,16k")
        sizes.append(int(digits) * (1024 if "k" in word else 1))
    return sizes


def _show_measurements(found: "list[Measurement]") -> None:
    """Print a table with speed and memory relative to the first mixer."""
    from ..report.figures.scaling import rows, three_digits

    reference = found[0].mixer
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("mixer", "length", "width", "parameters", "ms", "speed", "MB", "memory"):
        table.add_column(name, justify="left" if name == "mixer" else "right")
    failures = []
    for row in rows(found):
        where = [row["mixer"], f"{row['length']:,}", f"{row['width']:,}"]
        if row["reason"]:
            failures.append(f"{row['mixer']}, length {where[1]}, width {where[2]}: {row['reason']}")
            continue
        speed, memory = (f"{three_digits(row[name])}x" if row[name] else "" for name in ("speed", "memory"))
        time = three_digits(1e3 * row["seconds"])
        size = three_digits(1e-6 * row["bytes"])
        table.add_row(*where, f"{row['parameters']:,}", time, speed, size, memory)
    layers = "one layer" if found[0].depth == 1 else f"{found[0].depth} layers"
    say(f"{layers}, forward and backward, batch {found[0].batch}; speed and memory relative to {reference}")
    wide().print(table)
    for line in failures:
        say(line)
