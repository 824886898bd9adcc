"""Minutes of a lent GPU, spent in order of worth; each result is kept as soon as it is there.

    python tools/gpu_hour.py gpu-hour [--minutes 30] [--call 9] [--parts check,steps,...]
    python tools/gpu_hour.py rehearsal --toy          the same on a CPU at toy sizes, to find typos

check    tests marked ``cuda``; golden values of published code, on the device; what tests/fake_gpu claims:
         steps launch so many kernels, and wait for nothing
papers   networks of the papers on sequences like those of their tasks: hours and money of a cell
steps    times, memory, launches and waits of a training step: mixers at growing length, in single and half
         precision, compiled or not, beside a plain Transformer
row      the study long-images, a row of Long Range Arena at its true length, as far as the time reaches

A part may take its share of the minutes, and a call of the command at most ``--call`` of them; what does not
fit is named as left out. The same command goes on where it was cut, ``row`` from checkpoints: what is in
FOLDER/results.jsonl is not measured again, and failures are tried once more. Another half hour is ``--minutes
60`` then. docs/speed.md shows the tables that ``python tools/gpu_hour.py docs/speed/gpu --tables`` writes.

A machine without a network finds in build/carried what it lacks (six packages, if it has PyTorch, pytest,
numba, pyarrow and jaxtyping), made where there is one, for its Python:
pip install --target build/carried --only-binary=:all: --python-version 3.12 --platform manylinux2014_x86_64
pydantic beartype pooch
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

# Where the package or what it needs is not installed:
sys.path.extend(str(Path(__file__).parents[1] / place) for place in ("src", "benchmarks", "build/carried"))
try:
    from selfpretrain.data.dataset import SequenceDataset, generator
except ModuleNotFoundError as error:
    sys.exit(
        f"error: no module {error.name} here; first {sys.executable} -m pip install -e . beartype pytest, "
        "or without a network carry it, see --help"
    )
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens, Values
from selfpretrain.mixers.base import LayerContext
from selfpretrain.objectives.classify import Classify
from selfpretrain.registry import find, names
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RESULT
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.long_images import LongImages
from selfpretrain.studies.recipes.reported import paper_arms
from selfpretrain.system.hardware import environment
from selfpretrain.training.cost import Planner
from selfpretrain.training.gpus import GPUS
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage
from selfpretrain.training.step import prepare, step
from selfpretrain.training.trace import StepTrace, trace_step
from tables import Table

ROOT = Path(__file__).resolve().parents[1]
Result = dict[str, Any]
GOLDEN = ROOT / "tests" / "mixers" / "golden"
SHARES = {"check": 0.2, "papers": 0.1, "steps": 0.3, "row": 1.0}
"""Of the minutes of all calls; the last part takes what is left."""
ROW = (
    *("SPT, 10 epochs", "scratch (matched to 3)", "SPT, 3 epochs", "scratch", "SPT, 1 epoch"),
    "scratch (matched to 10)",
)
"""Columns of long-images, longest first; the last takes longer than a call, and goes on in the next."""
LAUNCHES = {"s4": 1171, "s4d": 687, "dss": 687, "dlr": 630, "lssl": 708, "ema": 576}
"""Kernels of a step of six blocks at 1,024 positions in half precision, as the emulated GPU counts them."""
GRAPHS = "bf16, graphs"
"""The way whose blocks are compiled and then replayed as CUDA graphs: is it worth a setting of a stage?"""
WAYS: dict[str, Result] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "bf16, compiled": {"precision": "bf16", "compile": True},
    GRAPHS: {"precision": "bf16"},
    "bf16, recomputed": {"precision": "bf16", "activation_checkpointing": True},
}
FIRST = ("attention", "s4", "s4d", "dlr", "local")
"""Mixers that are measured first, in all ways and lengths."""
LAST = ("exprnn", "lipschitz", "slstm")
"""Mixers that launch kernels position by position, tens of thousands a step."""
POSITIONS, WIDTH, WARM, TIMED = 65_536, 256, 3, 10
"""Positions of a batch, width of the networks, steps before the clock starts and after."""


@dataclass(frozen=True)
class Look:
    """What a task of the papers looks like, and how many examples its training split has."""

    form: SequenceSpec
    examples: int
    shortest: int


PIXELS = Values(levels=256, high=255.0, centre=(120.0,), spread=(60.0,))
LOOKS = {
    "listops": Look(SequenceSpec(Tokens(15), 1999, Classes(tuple("0123456789"))), 96_000, 501),
    "image": Look(SequenceSpec(PIXELS, 1024, Classes(tuple("0123456789"))), 45_000, 1024),
    "pathfinder": Look(SequenceSpec(PIXELS, 1024, Classes(("0", "1"))), 160_000, 1024),
}


@dataclass(frozen=True)
class Plan:
    """What to do, on what, for how long."""

    folder: Path
    device: str
    minutes: float
    toy: bool
    price: float  # of an hour
    call: float = 9.0  # minutes of one call of the command
    row_ends: float = 0.0  # when the part ``row`` has to stop, by ``time.monotonic``
    jobs: int = 4  # stages of ``row`` at a time, and processes of the tests


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def made_up(look: Look, batch: int) -> SequenceDataset:
    """Random sequences of a task's form."""
    random, length = np.random.default_rng(0), look.form.length
    lengths = random.integers(look.shortest, length, batch, endpoint=True)
    answers = random.integers(2, size=batch)
    if isinstance(look.form.signal, Tokens):
        return SequenceDataset.from_sequences(
            [random.integers(look.form.signal.vocab, size=n) for n in lengths], answers
        )
    rows = [random.integers(256, size=(n, 1)).astype(np.float32) for n in lengths]
    return SequenceDataset.from_sequences(rows, answers)


def step_of(
    model: Model, stage: Stage, look: Look, device: torch.device, graphs: bool = False
) -> Callable[[], None]:
    """A training step on one batch, with everything but the log."""
    torch.manual_seed(0)
    network = model.build(look.form, stage.objective.head(look.form, model.width, model.pooling)).to(device)
    prepare(network, stage, device)
    network.joint_kernels &= not graphs  # those inside of a block are replayed with it
    for block in network.blocks if graphs else ():
        block.compile(mode="reduce-overhead")
    optimizer = stage.optim.build(network, model.mixer.slow())
    data = made_up(look, stage.batch).preload(device)
    rows = torch.arange(stage.batch)

    def train() -> None:
        batch = data.batch(rows).to(device)
        targets = stage.objective.make_targets(batch, look.form, generator("ask"))
        step(network, optimizer, stage, look.form, targets)

    return train


def measured(step: Callable[[], None], device: torch.device, toy: bool) -> Result:
    """Seconds, memory and waits of a step."""
    for _ in range(1 if toy else WARM):
        step()
    taken = []
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(2 if toy else TIMED):
        start = clock(device)
        step()
        taken.append(clock(device) - start)
    found: Result = {"seconds": statistics.median(taken), "first": taken[0]}
    if on_gpu:
        found |= {"bytes": torch.cuda.max_memory_allocated(device)}
        found |= {"reserved": torch.cuda.max_memory_reserved(device)}
        found |= {"syncs": syncs(step), "launches": launches(step)}
    return found


def launches(step: Callable[[], None]) -> int:
    """How many kernels a step launches; copies and fills are none."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        step()
        torch.cuda.synchronize()
    on_gpu = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not event.name.startswith(("Memcpy", "Memset")) for event in on_gpu)


def syncs(step: Callable[[], None]) -> int:
    """How often a step waits for the device."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchron" in str(each.message) for each in heard)


def check(plan: Plan) -> Iterator[tuple[str, Callable[[], Result]]]:
    yield "tests", lambda: tests(plan)
    for path in sorted(GOLDEN.glob("*.npz"))[: 2 if plan.toy else None]:
        yield f"golden {path.stem}", lambda name=path.stem: golden(name, torch.device(plan.device))
    for mixer in list(LAUNCHES)[: 1 if plan.toy else None]:
        yield f"claims of {mixer}", lambda name=mixer: claims(name, plan)


def claims(name: str, plan: Plan) -> Result:
    """What the emulated GPU says of a step, beside what is seen here."""
    length, device = 32 if plan.toy else 1024, torch.device(plan.device)
    look = Look(SequenceSpec(Tokens(16), length, Classes(("0", "1"))), 4, length)
    stage = Stage(Classify(), Budget(steps=1), batch=4, precision="bf16")
    step = step_of(Model(find("mixers", name)(), 64, 6), stage, look, device)
    return measured(step, device, plan.toy) | {"claimed": LAUNCHES[name], "claimed_syncs": 0}


def tests(plan: Plan) -> Result:
    """The tests for GPUs; without one they are found, and skipped."""
    workers = ("-n", "0" if plan.toy else str(plan.jobs))
    command = [sys.executable, "-m", "pytest", "-q", *workers, "-m", "cuda", "tests/training/test_cuda.py"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=paths)
    said = done.stdout.splitlines()
    if done.returncode not in (0, 1):
        raise RuntimeError("\n".join([*said, *done.stderr.splitlines()][-20:]))
    failures = [line for line in said if line.startswith(("FAILED", "ERROR"))]
    return {"said": said[-1], "failures": failures}  # kept: they would fail again


@torch.no_grad()
def golden(name: str, device: torch.device) -> Result:
    """How far a layer on the device is from what published code gave, in double and in single precision."""
    about = json.loads((GOLDEN / "about.json").read_text())[name]
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        kept = {key: torch.from_numpy(file[key]) for key in file.files}
    mixer = find("mixers", about["mixer"])(**about["settings"])
    layer = mixer.build(LayerContext(about["width"], about["length"], about["causal"])).double()
    weights = {
        key.removeprefix("weights."): x.double() for key, x in kept.items() if key.startswith("weights.")
    }
    layer.load_state_dict(weights)
    found = {}
    for kind in (torch.float64, torch.float32):
        layer = layer.to(device, kind)
        whole = kept.get("kernel", kept.get("y"))
        y = layer.kernel(about["length"]) if "kernel" in kept else layer(kept["x"].to(device, kind), None)
        found[str(kind)] = float((y.cpu() - whole).abs().max() / whole.abs().max())
    return found


def steps(plan: Plan) -> Iterator[tuple[str, Callable[[], Result]]]:
    """The usual architectures at all lengths come first, then all others, then compiled and replayed."""
    if plan.toy:
        yield from steps_of(plan, ("attention", "s4"), (32,), ("fp32", "bf16"))
        return
    lengths, others = (1024, 4096, 16_384), [name for name in names("mixers") if name not in FIRST + LAST]
    yield from steps_of(plan, FIRST, lengths, ("bf16", "fp32"))
    yield from steps_of(plan, (*others, *LAST), lengths[:1], ("bf16",))
    yield from steps_of(plan, FIRST, lengths, ("bf16, compiled", GRAPHS, "bf16, recomputed"))
    yield from steps_of(plan, (*others, *LAST), lengths, WAYS)


def steps_of(
    plan: Plan, mixers: Iterable[str], lengths: Iterable[int], ways: Iterable[str]
) -> Iterator[tuple[str, Callable[[], Result]]]:
    for length in lengths:
        yield f"plain transformer, {length}", lambda length=length: transformer(plan, length)
        for way in ways:
            for mixer in mixers:
                yield f"{mixer}, {length}, {way}", lambda m=mixer, n=length, w=way: one(plan, m, n, w)


def sizes(plan: Plan, length: int) -> tuple[int, int]:
    return (16, 2) if plan.toy else (WIDTH, max(1, POSITIONS // length))


def one(plan: Plan, name: str, length: int, way: str) -> Result:
    width, batch = sizes(plan, length)
    look = Look(SequenceSpec(Tokens(256), length, Classes(("0", "1"))), batch, length)
    stage = Stage(Classify(), Budget(steps=1), batch=batch, **WAYS[way])
    device = torch.device(plan.device)
    step = step_of(Model(find("mixers", name)(), width), stage, look, device, way == GRAPHS)
    return measured(step, device, plan.toy)


def transformer(plan: Plan, length: int) -> Result:
    """The same step of PyTorch's own encoder in half precision."""
    (width, batch), device = sizes(plan, length), torch.device(plan.device)
    how: Result = {"batch_first": True, "norm_first": True}
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, nn.functional.gelu, **how)
    network = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    return layered(network, torch.randn(batch, length, width, device=device), device, plan.toy)


def layered(network: nn.Module, x: Tensor, device: torch.device, toy: bool) -> Result:
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            y = network(x)
        y.float().square().mean().backward()
        optimizer.step()

    return measured(step, device, toy)


def papers(plan: Plan) -> Iterator[tuple[str, Callable[[], Result]]]:
    networks = (("coser", "transformer"), ("amos", "transformer-rotary"), ("amos", "s4"))
    tasks = ("image", "pathfinder", "listops")[: 2 if plan.toy else None]
    ways = ("bf16", "bf16, compiled", GRAPHS, "fp32")[: 1 if plan.toy else None]
    for way, task, (paper, family), arm in product(ways, tasks, networks, ("pretrain", "finetune")):
        named = f"{task}, {paper}, {family}, {arm}, {way}"
        yield named, lambda t=task, p=paper, f=family, a=arm, w=way: cell(plan, t, p, f, a, w)


def cell(plan: Plan, task: str, paper: str, family: str, arm: str, way: str) -> Result:
    """Seconds per epoch of a reported recipe's stage; hours and money of all its epochs."""
    arms, look, device = paper_arms(paper, task, family), LOOKS[task], torch.device(plan.device)
    stage: Stage = replace(getattr(arms, arm), **WAYS[way])
    model = arms.model
    if plan.toy:
        look = replace(look, form=replace(look.form, length=32), shortest=32)
        stage, model = replace(stage, batch=2), replace(model, width=16, depth=1)
    found = measured(step_of(model, stage, look, device, way == GRAPHS), device, plan.toy)
    epoch = found["seconds"] * look.examples / stage.batch
    hours = epoch * (stage.budget.epochs or 1) / 3600
    return found | {"epoch": epoch, "hours": hours, "money": hours * plan.price, "batch": stage.batch}


def row(plan: Plan) -> Iterator[tuple[str, Callable[[], Result]]]:
    yield "long-images", lambda: trained(plan)


def trained(plan: Plan) -> Result:
    """Train the stages of the study until the time is up; the scores of those that ended.

    Raises:
        Interrupted: if some did not end; the next call goes on from there.
    """
    study = LongImages.at_scale("smoke" if plan.toy else "small", 1 if plan.toy else 3)
    cells = sorted(study.cells(), key=lambda cell: ROW.index(cell.column))
    space = Workspace.of(plan.folder / "runs", plan.device, str(1 if plan.toy else plan.jobs))
    space = replace(space, quiet=True, stop=lambda: time.monotonic() > plan.row_ends)
    run_recipes((cell.recipe for cell in cells), space)
    results = {cell: space.stage(cell.recipe).read(RESULT)["scores"] for cell in cells}
    return {f"{c.column}, seed {c.recipe.seed}": scores["test"] for c, scores in results.items()}


PARTS = {"check": check, "papers": papers, "steps": steps, "row": row}


def kept(path: Path) -> list[Result]:
    """What is measured already, failures too."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path: Path, line: Result) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def work(plan: Plan, parts: list[str]) -> int:
    """Everything that fits, in order; how many things failed."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    path, failed = plan.folder / "results.jsonl", 0
    ends = time.monotonic() + 60 * plan.call
    before = kept(path)
    keep(
        path,
        {"part": "about", "name": time.strftime("%Y-%m-%dT%H:%M:%S"), "command": sys.argv}
        | {"environment": environment(plan.device), "minutes": plan.minutes, "toy": plan.toy},
    )
    done = {(line["part"], line["name"]) for line in before if "failed" not in line}
    ends = min(ends, time.monotonic() + 60 * plan.minutes - sum(line.get("took", 0) for line in before))
    for part in parts:
        spent = sum(line.get("took", 0) for line in before if line["part"] == part)
        until = min(ends, time.monotonic() + 60 * plan.minutes * SHARES[part] - spent)
        left_out = []
        for name, do in PARTS[part](replace(plan, row_ends=until)):
            if (part, name) in done:
                continue
            done.add((part, name))
            start = time.monotonic()
            if start > until:
                left_out.append(name)
                continue
            try:
                answer = do()
            except Exception as error:  # the rest of the hour goes on
                failed, answer = failed + 1, {"failed": f"{type(error).__name__}: {error}"[:2000]}
            torch._dynamo.reset()
            if plan.device.startswith("cuda"):
                torch.cuda.empty_cache()
            keep(path, {"part": part, "name": name, "took": round(time.monotonic() - start, 2)} | answer)
        if left_out:
            keep(path, {"part": part, "name": "left out", "failed": "no time", "names": left_out})
    return failed


def tables(results: list[Result]) -> dict[str, Table]:
    """The tables of docs/speed.md: the last answer to everything that was asked."""
    found = {(line["part"], line["name"]): line for line in results if "failed" not in line}
    steps = [["mixer", "positions", "how", "ms a step", "GB", "kernels", "waits"]]
    claims = [["mixer", "kernels on the emulated GPU", "kernels", "waits"]]
    hours = [["task", "recipe", "stage", "how", "ms a step", "forecast", "GB", "forecast", "hours"]]
    for (part, name), line in found.items():
        seen = [str(line.get(key, "")) for key in ("launches", "syncs")]
        took = f"{1000 * line.get('seconds', 0):.1f}"
        memory = f"{line.get('bytes', 0) / 1e9:.2f}"
        if part == "steps":
            mixer, positions, *how = name.split(", ")
            steps.append([mixer, positions, ", ".join(how) or "bf16", took, memory, *seen])
        elif name.startswith("claims of"):
            claims.append([name.removeprefix("claims of "), str(line["claimed"]), *seen])
        elif part == "papers":
            task, paper, family, arm, *how = name.split(", ")
            expected = ["", ""] if how != ["bf16"] else forecast(task, paper, family, arm)
            about = [task, f"{paper}, {family}", arm, ", ".join(how)]
            hours.append([*about, took, expected[0], memory, expected[1], f"{line['hours']:.2f}"])
    return {"claims": claims, "steps": steps, "papers": hours}


def forecast(task: str, paper: str, family: str, arm: str) -> list[str]:
    """Milliseconds and gigabytes of a step on an H100."""
    trace = traced(task, paper, family, arm)
    return [f"{1000 * GPUS['h100'].seconds(trace):.1f}", f"{trace.peak_bytes / 1e9:.2f}"]


def traced(task: str, paper: str, family: str, arm: str) -> StepTrace:
    """A step of ``cell`` in half precision, from shapes alone."""
    arms, look = paper_arms(paper, task, family), LOOKS[task]
    stage = replace(getattr(arms, arm), precision="bf16")
    recipe = Recipe(Planner(0, stubs=True).task(find("tasks", task)()), arms.model, (stage,))
    return trace_step(recipe, look.form.length, padded=look.shortest < look.form.length)


def main() -> None:
    """Work, and end with 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0, help="of all calls together")
    parser.add_argument("--call", type=float, default=9.0, help="minutes of this call at most")
    parser.add_argument("--tables", action="store_true", help="measure nothing; write tables of what is kept")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--price", type=float, default=3.0, help="of an hour of this GPU")
    parser.add_argument("--jobs", type=int, default=4, help="processes that share the GPU")
    parser.add_argument("--toy", action="store_true", help="on the CPU, at sizes that prove nothing")
    given = parser.parse_args()
    if given.tables:
        for name, table in tables(kept(given.folder / "results.jsonl")).items():
            text = "".join("\t".join(row) + "\n" for row in table)
            (given.folder / f"{name}.tsv").write_text(text, encoding="utf-8")
        return
    if not given.toy and not torch.cuda.is_available():
        sys.exit("error: there is no GPU here; --toy rehearses on the CPU")
    if strange := set(given.parts.split(",")) - set(PARTS):
        sys.exit(f"error: --parts {', '.join(sorted(strange))}: there are {', '.join(PARTS)}")
    if given.toy:
        torch.set_num_threads(1)
    device = "cpu" if given.toy else "cuda"
    limits = given.minutes, given.toy, given.price, given.call
    plan = Plan(given.folder, device, *limits, jobs=given.jobs)
    sys.exit(1 if work(plan, given.parts.split(",")) else 0)


if __name__ == "__main__":
    main()
