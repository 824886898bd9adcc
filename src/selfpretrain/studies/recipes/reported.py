"""Papers' recipes by name: hyperparameters of an architecture on a task, with the source of each value.

Papers report some hyperparameters, the code published with them has more, and the rest is our choice or a
default of this package: see ``tables``, which reads them.
"""

from collections.abc import Iterable

from ...errors import SpecError, UnknownName, nearest
from ...mixers.base import Mixer
from ...objectives.base import Denoise
from ...registry import find, name_of
from ...report import paper_numbers
from ...tasks.base import Task
from ...tasks.common.shuffled import Shuffled
from .arms import ArmRecipes
from .tables import PaperRecipe, RecipeKey, read_recipes

PAPERS = {
    name.rstrip("0123456789"): paper_numbers.PAPERS[name] for name in ("amos2024", "coser2025", "gu2022")
}
"""Paper -> citation."""
FAMILIES = {
    ("attention", "masked"): ("transformer-rotary",),
    ("attention", "causal"): ("transformer-dagger", "transformer-rotary"),
    ("local", "masked"): ("transformer-rotary",),
    ("local", "causal"): ("transformer-dagger", "transformer-rotary"),
}
"""(mixer, objective) -> families to try in this order; for other mixers the family is the mixer's name."""
OBJECTIVES = ["masked", "causal"]


def paper_arms(paper: str, task: str, family: str, objective: str = "masked") -> ArmRecipes:
    """Return the reported arms for a task and a family of architectures, see ``paper_recipe``."""
    return paper_recipe(paper, task, family, objective).arms


def paper_recipe(paper: str, task: str, family: str, objective: str = "masked") -> PaperRecipe:
    """Return the reported arms with the source of every value.

    Raises:
        SpecError: if the paper has no such recipe; the message lists those it has.
    """
    key = RecipeKey(paper, task, family, objective)
    recipes = _recipes(paper)
    if key in recipes:
        return recipes[key]
    for i, field in enumerate(RecipeKey._fields):
        known = OBJECTIVES if field == "objective" else list(dict.fromkeys(each[i] for each in recipes))
        if key[i] not in known:
            raise UnknownName(f"{PAPERS[paper]}: no {field} called {key[i]!r}{nearest(key[i], known)}")
    trained = _join_unique(f"{each.family} ({each.objective})" for each in recipes if each.task == task)
    raise SpecError(
        f"{PAPERS[paper]} report no recipe for {family} on {task} ({objective}); there, they have {trained}"
    )


def recipe_keys(paper: str) -> list[RecipeKey]:
    """Return the keys of all recipes of a paper."""
    return list(_recipes(paper))


def match_recipe(task: Task, mixer: Mixer, denoise: Denoise) -> ArmRecipes:
    """Return the recipe of Amos et al. (2024) for a mixer with default settings.

    Attention becomes local attention on tasks where the paper cuts sequences into blocks.

    Raises:
        SpecError: if there is no such recipe, or the mixer has settings that the recipe would replace.
    """
    name = task_name(task)
    kind = name_of(mixer)
    objective = name_of(denoise)
    families = FAMILIES.get((kind, objective), (kind,))
    keys = [
        key for key in (RecipeKey("amos", name, f, objective) for f in families) if key in _recipes("amos")
    ]
    if not keys:
        others = [key for key in recipe_keys("amos") if key.family in families and key.objective == objective]
        hint = f"there are some for {_join_unique(key.task for key in others)}; " if others else ""
        raise SpecError(
            f"no reported recipe for {kind} on {name} ({objective}); {hint}use --scale small and -s ..."
        )
    arms = paper_arms(*keys[0])
    own_mixer = type(arms.model.mixer)
    attention = find("mixers", "attention")
    local = find("mixers", "local")
    if isinstance(mixer, local) and own_mixer is not local:
        raise SpecError(f"the reported recipe on {name} attends to all positions; use --mixers attention")
    if mixer != own_mixer() and not (own_mixer is local and mixer == attention()):
        raise SpecError(f"the reported recipe sets {kind} itself; name it without settings, and use -s after")
    return arms


def task_name(task: Task) -> str:
    """Return the name of a task in a ``RecipeKey``, e.g. ``bidmc-hr``, ``speech-mfcc``."""
    if isinstance(task, Shuffled):  # permuted sequences take the same recipe
        return task_name(task.task)
    name = name_of(task)
    settings = vars(task)
    if name == "bidmc":
        return f"{name}-{settings['target'].lower()}"
    if name == "speech" and settings["features"] == "mfcc":
        return f"{name}-mfcc"
    return name


def _recipes(paper: str) -> dict[RecipeKey, PaperRecipe]:
    if paper not in PAPERS:
        advice = "; a TableStudy may name another paper in paper_recipes"
        raise UnknownName(f"no recipes of a paper called {paper!r}{nearest(paper, PAPERS)}{advice}")
    return read_recipes(paper)


def _join_unique(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
