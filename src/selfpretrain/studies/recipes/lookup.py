"""Look up published recipes by paper, task, architecture family and objective."""

import functools
import importlib
from collections.abc import Iterable

from ...errors import SpecError, UnknownName, nearest
from ...mixers.base import Mixer
from ...objectives.base import Denoise
from ...registry import find, name_of
from ...report import paper_numbers
from ...tasks.base import Task
from ...tasks.common.shuffled import Shuffled
from .arms import ArmRecipes
from .printed import PaperRecipe, RecipeKey, Table

MODULES = {"amos": "amos2024", "coser": "coser2025", "gu": "gu2022"}
"""Paper -> module with its recipes, which is imported on demand."""
PAPERS = {paper: paper_numbers.PAPERS[module] for paper, module in MODULES.items()}
"""Paper -> citation."""
FAMILIES = {
    ("attention", "masked"): ("transformer-rotary",),
    ("attention", "causal"): ("transformer-dagger", "transformer-rotary"),
    ("local", "masked"): ("transformer-rotary",),
    ("local", "causal"): ("transformer-dagger", "transformer-rotary"),
}
"""(mixer, objective) -> families to try in this order; for other mixers the family is the mixer's name."""
OBJECTIVES = ["masked", "causal"]


def recipe(paper: str, task: str, family: str, objective: str = "masked") -> ArmRecipes:
    """Return the published arms for a task and a family of architectures.

    Raises:
        SpecError: if the paper has no such recipe; the message lists those it has.
    """
    return printed(paper, task, family, objective).arms


def printed(paper: str, task: str, family: str, objective: str = "masked") -> PaperRecipe:
    """Return the published arms with the source of every value.

    Raises:
        SpecError: if the paper has no such recipe; the message lists those it has.
    """
    key = RecipeKey(paper, task, family, objective)
    _check(key)
    return _tables(paper)[key]()


def available(paper: str) -> list[RecipeKey]:
    """Return the keys of all recipes of a paper.

    Raises:
        UnknownName: if there are no recipes of that paper.
    """
    return list(_tables(paper))


def matching(task: Task, mixer: Mixer, denoise: Denoise) -> ArmRecipes:
    """Return the recipe of Amos et al. (2024) for a mixer with default settings.

    Attention becomes local attention on tasks where the paper cuts sequences into blocks.

    Raises:
        SpecError: if there is no such recipe, or the mixer has settings that the recipe would replace.
    """
    name, kind = task_name(task), name_of(mixer)
    objective = name_of(denoise)
    families = FAMILIES.get((kind, objective), (kind,))
    keys = [
        key for key in (RecipeKey("amos", name, f, objective) for f in families) if key in _tables("amos")
    ]
    if not keys:
        there = [key for key in available("amos") if key.family in families and key.objective == objective]
        hint = f"there are some for {_listed(key.task for key in there)}; " if there else ""
        raise SpecError(
            f"no printed recipe for {kind} on {name} ({objective}); {hint}use --scale small and -s ..."
        )
    arms = recipe(*keys[0])
    ours, whole, blocks = type(arms.model.mixer), find("mixers", "attention"), find("mixers", "local")
    if isinstance(mixer, blocks) and ours is not blocks:
        raise SpecError(f"the printed recipe on {name} attends to all positions; use --mixers attention")
    if mixer != ours() and not (ours is blocks and mixer == whole()):
        raise SpecError(f"the printed recipe sets {kind} itself; name it without settings, and use -s after")
    return arms


def task_name(task: Task) -> str:
    """Return the name of a task in a ``RecipeKey``, e.g. ``bidmc-hr``, ``speech-mfcc``."""
    if isinstance(task, Shuffled):  # permuted sequences take the same recipe
        return task_name(task.task)
    plain, settings = name_of(task), vars(task)
    if plain == "bidmc":
        return f"{plain}-{settings['target'].lower()}"
    return f"{plain}-mfcc" if plain == "speech" and settings["features"] == "mfcc" else plain


@functools.cache
def _tables(paper: str) -> Table:
    if paper not in PAPERS:
        raise UnknownName(f"no recipes of a paper called {paper!r}{nearest(paper, PAPERS)}")
    return importlib.import_module(f".{MODULES[paper]}", __package__).table()


def _check(key: RecipeKey) -> None:
    keys = list(_tables(key.paper))
    if key in keys:
        return
    for i, field in enumerate(RecipeKey._fields):
        known = OBJECTIVES if field == "objective" else list(dict.fromkeys(each[i] for each in keys))
        if key[i] not in known:
            raise UnknownName(f"{PAPERS[key.paper]}: no {field} called {key[i]!r}{nearest(key[i], known)}")
    trained = _listed(f"{each.family} ({each.objective})" for each in keys if each.task == key.task)
    raise SpecError(
        f"{PAPERS[key.paper]} print no recipe for {key.family} on {key.task} ({key.objective}); "
        f"there, they have {trained}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
