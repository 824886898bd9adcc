"""A study as one HTML page that needs no network, reads on a phone and prints on paper."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from . import format, tables
from .analysis import Analysis
from .caveats import remarks
from .figures import style
from .verdict import verdict

if TYPE_CHECKING:
    import jinja2

IDLE = {
    r"<metadata>.*?</metadata>": "",
    r'<g id="[^"]*"': "<g",  # the same in every figure, and never referred to
    r" font-family: [^;]*;": "",
    r' transform="rotate\(-0 [^"]*"': "",
    r"\s+": " ",
    r"> <": "><",
}
"""What a figure of the page does without, and what is put there instead."""

FINE = re.compile(r"(?<=\d\.\d)\d+")
"""Digits of a coordinate that no screen shows: a tenth of a point is fine enough."""

Facts = list[tuple[str, str]]
"""Names and what to say about them, in order."""


def document(analysis: Analysis) -> str:
    """The text of the page."""
    plan, curves = analysis.study.plan, style.learning_curves(analysis)
    return template("page.html.j2").render(
        version=plan.version,
        title=f"{plan.title} · {plan.task.name}",
        plan=plan,
        said=verdict(analysis),
        remarks=remarks(analysis),
        tables={made.name: made for made in tables.tables(analysis)},
        seeds=tables.seeds(analysis),
        gain_plot=themed(style.gain_plot(analysis)),
        curves={row: themed(svg) for row, svg in curves.items()},
        data=data_card(analysis),
        selection=selection(analysis),
        environment=environment(analysis),
    )


def template(name: str) -> "jinja2.Template":
    """A template of this folder; what is put into it is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def themed(svg: str) -> str:
    """An SVG for use inside the page: colours and letters follow the page, and nothing idle is kept."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', body)
    for idle, instead in IDLE.items():
        body = re.sub(idle, instead, body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: FINE.sub("", tag[0]), body)  # in tags: letters stay as they are
    names = {style.INK: "ink", style.FAINT: "rule", style.BAND: "band"}
    names |= {colour: f"arm{at}" for at, colour in enumerate(style.COLOURS)}
    for colour, name in names.items():
        body = body.replace(colour, f"var(--{name})")
    return body


def data_card(analysis: Analysis) -> Facts:
    """Where the data come from, how many there are, and whether the splits overlap."""
    task = analysis.study.plan.task
    counts = f"{task.train} train ({task.labelled} labelled), {task.val} validation, {task.test} test"
    overlap = ", ".join(f"{pair} {n}" for pair, n in task.overlap.items())
    return [
        ("task", f"{task.name}: {task.about}"),
        ("source", task.source),
        ("licence", task.licence),
        ("sequences", f"{task.signal}, up to {task.length} positions"),
        ("target", task.target),
        ("examples", counts),
        ("equal sequences in two splits", overlap or "not counted"),
    ]


def selection(analysis: Analysis) -> Facts:
    """How the weights behind each score were chosen, arm by arm."""
    facts = [
        ("rule", "the step with the best validation score; the test split is read once, after the last stage")
    ]
    for column in analysis.study.columns:
        done = [cell.scored for cell in analysis.study.cells if cell.column == column and cell.finished]
        if done:
            best, steps = _range(s.best_step for s in done), _range(s.steps for s in done)
            why = ", ".join(f"{n} by {reason}" for reason, n in _counts(s.stopped for s in done).items())
            facts.append((column, f"best step {best} of {steps}; stopped {why}"))
    return facts


def environment(analysis: Analysis) -> Facts:
    """Versions, devices and commits of all scored runs."""
    kept = [cell.scored.environment for cell in analysis.study.cells if cell.finished]
    names = dict.fromkeys(name for found in kept for name in found if name != "git")
    facts = [(name, ", ".join(_counts(str(found.get(name)) for found in kept))) for name in names]
    commits = _counts(_commit(found["git"]) for found in kept if found.get("git"))
    return facts + ([("git", ", ".join(commits))] if commits else [])


def _commit(git: dict[str, object]) -> str:
    return f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"


def _counts(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]}{format.NONE}{found[-1]}"
