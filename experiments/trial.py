"""A newcomer's day: real data from packages, every verb that a newcomer needs, as documented.

    pip install aeon seglearn rdata
    apt-get download r-cran-mlbench asterisk-core-sounds-{en,fr,it}-wav
    for file in *.deb; do dpkg -x "$file" debs; done
    DEBS=debs python experiments/trial.py

Set by set, each kept in trial.json when it is finished; the same command goes on from there, and writes the
table of docs/log.md. ``--page`` writes it without measuring, ``--sets NAME`` tries some again. Files are
written as people have them, and commands are typed as the documentation shows them; one that fails ends the
trial. Every command and its seconds are in trial.json.
"""

import argparse
import csv
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from tables import Table, write_tsv

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "trial.json", HERE.parent / "docs" / "log.md"
ARMS = ("scratch", "scratch (matched)", "SPT")
LANGUAGES = {"en_US_f_Allison": "english", "fr_CA_f_June": "french", "it_IT_m_Carlo": "italian"}
"""Folders of recorded prompts, one speaker each, and what people would call them."""
SECTIONS = ("python", "perl", "haskell", "rust", "games", "fonts", "net", "science", "sound", "gnu-r")
LABELLED, UNLABELLED, TESTED = 340, 2_600, 1_000
"""Descriptions of packages."""
NEW = 20
"""Rows that a model answers."""
Entry = dict[str, Any]


@dataclass(frozen=True)
class Visit:
    """A data set, what a newcomer would do with it, and where it comes from."""

    name: str
    about: str
    source: str
    prepare: Callable[[], None]  # writes files into the working folder
    read: str  # what follows ``selfpretrain data import``
    compare: str = "--mixers s4d --seeds 3 --time-limit 2m"
    predict: str = ""  # a file of new sequences

    @property
    def commands(self) -> Iterator[str]:
        """Everything that is typed, in order."""
        yield f"selfpretrain data import {self.read} --name {self.name} --dry-run"
        yield f"selfpretrain data import {self.read} --name {self.name}"
        yield f"selfpretrain data check {self.name} --json"
        yield f"selfpretrain compare --task {self.name} {self.compare} --dry-run"
        yield f"selfpretrain compare --task {self.name} {self.compare} --json"
        yield "selfpretrain report runs"
        if self.predict:
            yield f"selfpretrain fit {self.read} --output model --time-limit 30s"
            yield f"selfpretrain predict model {self.predict} --output answers.csv"


def archive(name: str) -> None:
    """A folder of the time series archive as aeon ships it."""
    place = Path(str(import_module("aeon").__file__)).parent / "datasets" / "data" / name
    shutil.copytree(place, name)


def debs(*parts: str) -> Path:
    """A place inside of what was unpacked of Debian's packages."""
    return Path(os.environ.get("DEBS", "debs")).absolute().joinpath("usr", *parts)


def splice() -> None:
    """Sixty bases around a place where DNA may be joined, as words; of StatLog's test, 5 % are copies."""
    from labelled import SETS

    os.environ["MLBENCH"] = os.environ["DEBS"]
    with warnings.catch_warnings(action="ignore"):  # of encodings
        data = SETS["splice"]()
    parts = (data.train, data.test)
    rows = [{"bases": w, "kind": k} for words, kinds in parts for w, k in zip(words, kinds, strict=True)]
    write("splice.csv", rows)
    write("new.csv", [{"bases": row["bases"]} for row in rows[-NEW:]])


def watch() -> None:
    """Ten people's exercises at 50 Hz, a row per moment."""
    held = import_module("seglearn.datasets").load_watch()
    series = zip(held["X"], held["y"], held["subject"], strict=True)
    write(
        "watch.csv",
        [
            {"id": number, "exercise": held["y_labels"][int(label)], "subject": int(subject), "t": t}
            | dict(zip(("ax", "ay", "az", "wx", "wy", "wz"), (f"{x:.5g}" for x in moment), strict=True))
            for number, (values, label, subject) in enumerate(series)
            for t, moment in enumerate(values)
        ],
    )


def packages() -> None:
    """One line on each of some Debian packages, few of them with the section it belongs to."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    found = {}
    for block in text.split("\n\n"):
        said = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        if said.get("Section") in SECTIONS and said.get("Description"):
            found[said["Package"]] = (said["Description"], said["Section"])
    chosen = sorted(found, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    rows = []
    for number, name in enumerate(chosen[: TESTED + LABELLED + UNLABELLED]):
        description, section = found[name]
        known = number < TESTED + LABELLED
        part = "test" if number < TESTED else "train"
        rows.append({"description": description, "section": section if known else "", "part": part})
    write("packages.csv", rows)
    write("new.csv", [{"description": row["description"]} for row in rows[:NEW]])


def prompts() -> None:
    """Recorded phrases of a telephone exchange, a folder per language."""
    for folder, language in LANGUAGES.items():
        Path("prompts", language).mkdir(parents=True)
        for file in sorted(debs("share/asterisk/sounds", folder).glob("*.wav")):
            shutil.copy(file, Path("prompts", language, file.name))


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """A table with a heading."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


TRIAL = {
    visit.name: visit
    for visit in (
        Visit(
            "italy-power",
            "Power demand of a day: winter or summer?",
            "aeon, as it ships",
            lambda: archive("ItalyPowerDemand"),
            "ItalyPowerDemand",
        ),
        Visit(
            "vowels",
            "Two vowels as cepstra: which of nine men speaks?",
            "aeon, as it ships",
            lambda: archive("JapaneseVowels"),
            "JapaneseVowels/JapaneseVowels_TRAIN.ts --test JapaneseVowels/JapaneseVowels_TEST.ts",
        ),
        Visit(
            "splice",
            "DNA: does the sequence begin, end or hold no piece that is read?",
            "Debian's r-cran-mlbench, as CSV",
            splice,
            "splice.csv --label kind --sequence bases",
            predict="new.csv",
        ),
        Visit(
            "watch",
            "A watch's sensors: which of seven exercises? Ten people",
            "seglearn, as CSV with a row per moment",
            watch,
            "watch.csv --label exercise --group subject --id id --time t --value ax,ay,az,wx,wy,wz "
            "--window 200 --stride 100",
            "--mixers s4d --seeds 1 --group-folds 5 -s pretrain.budget.steps=200 "
            "-s finetune.budget.steps=100 -s scratch.budget.steps=100",
        ),
        Visit(
            "packages",
            "Debian's packages in one line each: which section? Few labels",
            "apt-cache, as CSV with empty labels",
            packages,
            "packages.csv --label section --sequence description --split part",
            "--mixers s4d --seeds 1 --time-limit 3m",
            predict="new.csv",
        ),
        Visit(
            "prompts",
            "Recorded phrases: English, French or Italian? One speaker each",
            "Debian's asterisk-core-sounds, as folders of WAV",
            prompts,
            "prompts --features mfcc --length 300",
            "--mixers s4d --seeds 1 --time-limit 3m",
        ),
    )
}
"""Smallest first."""


def visited(visit: Visit) -> Entry:
    """What became of every command, in an empty folder with data of its own.

    Raises:
        SystemExit: if a command fails.
    """
    here, before = Path.cwd(), os.environ.get("DEBS", "debs")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DEBS"] = str(Path(before).absolute())
        os.chdir(folder)
        try:
            visit.prepare()
            environment = os.environ | {"SELFPRETRAIN_DATA": f"{folder}/data", "COLUMNS": "100"}
            ran = [typed(command, environment) for command in visit.commands]
        finally:
            os.chdir(here)
            os.environ["DEBS"] = before
    return {"commands": [{k: v for k, v in each.items() if k != "out"} for each in ran]} | scores(ran)


def typed(command: str, environment: Mapping[str, str]) -> Entry:
    """A command, the seconds of the processor that it took, and what it printed."""
    start = _spent()
    words = [sys.executable, "-m", "selfpretrain", *shlex.split(command)[1:]]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    seconds = _spent() - start
    print(f"{seconds:7.1f} s  {command}", flush=True)
    return {"command": command, "seconds": round(seconds, 1), "out": done.stdout}


def _spent() -> float:
    found = os.times()
    return found.children_user + found.children_system


def scores(ran: list[Entry]) -> Entry:
    """Pooled scores of the arms seed by seed, and of simple methods, from what commands printed."""
    printed = {each["command"].removesuffix(" --json"): each["out"] for each in ran}
    compared = next(out for said, out in printed.items() if "compare" in said and "--dry-run" not in said)
    checked = next(out for said, out in printed.items() if said.startswith("selfpretrain data check"))
    arms: dict[str, list[float]] = {}
    for row in json.loads(compared)["rows"]:
        arms.setdefault(row["column"], []).append(row["score"])
    findings = json.loads(checked)["findings"]
    simple = {
        f["what"]: float(f["said"].split()[1].strip(",;:"))
        for f in findings
        if f["said"].startswith("accuracy ")
    }
    return {"arms": arms, "simple": simple}


def finished() -> dict[str, Entry]:
    """What is kept."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def score_table(kept: Mapping[str, Entry]) -> Table:
    """Accuracy of every arm, and of the best simple method that ``selfpretrain data check`` tells of."""
    rows = []
    for name, entry in kept.items():
        means = [100 * sum(entry["arms"][arm]) / len(entry["arms"][arm]) for arm in ARMS]
        best = max(entry["simple"], key=entry["simple"].__getitem__)
        (seconds,) = (
            c["seconds"] for c in entry["commands"] if "compare" in c["command"] and "--json" in c["command"]
        )
        shown = [*(f"{mean:.1f}" for mean in means), f"{100 * entry['simple'][best]:.1f}, {best}"]
        rows.append([name, TRIAL[name].about, *shown, f"{seconds:.0f}"])
    return [["data", "what", *ARMS, "best simple method", "seconds of compare"], *rows]


def write_page(page: Path) -> None:
    """Write the table of what is kept beside a page, in the order of the sets."""
    found = finished()
    table = score_table({name: found[name] for name in TRIAL if name in found})
    write_tsv(page.with_name(f"{page.stem}-trial.tsv"), table)


def main() -> None:
    """Try what is not kept, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="", help="try these again, comma-separated")
    parser.add_argument("--page", action="store_true", help="try nothing")
    arguments = parser.parse_args()
    again = [name for name in arguments.sets.split(",") if name]
    if unknown := set(again) - set(TRIAL):
        sys.exit(f"error: no set {', '.join(sorted(unknown))}; there are {', '.join(TRIAL)}")
    for name in [] if arguments.page else again or [name for name in TRIAL if name not in finished()]:
        kept = finished() | {name: visited(TRIAL[name])}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write_page(PAGE)


if __name__ == "__main__":
    main()
