"""Write ``docs/recipes.md``: every printed recipe, with the place in the paper where each number stands.

Run it after a change of a recipe; a test compares the page with what this makes.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfpretrain.config import to_dict
from selfpretrain.studies.recipes.printed import (
    CODE,
    DEFAULT,
    OURS,
    PAPERS,
    PaperRecipe,
    paper_recipe,
    recipe_keys,
)

PAGE = Path(__file__).parent.parent / "docs/recipes.md"
ARMS = ("model", "pretrain", "finetune", "scratch_model", "scratch")
HEAD = """# Printed recipes

What the papers print of how their networks were trained, as recipes that can be run. For a task, a mixer and
an objective, `spt compare --scale paper` takes that of Amos et al. (2024):

```console
$ spt compare --task image --mixers attention --objective masked --scale paper --dry-run
```

Studies ask for any of them by name: `paper_arms("amos", "image", "s4-random")` in
`studies/recipes/printed.py`. What a paper did not train is refused.

Every field of a recipe is listed under the place where it stands: a table and its row, a section, the code
published with Amos et al., or our choice where neither says it. A field that is not listed has the default
of this package.

Budgets are as the papers mean them: "a maximum of either 200 epochs or 24h on a single GPU (whichever comes
first)" is `budget.epochs 200, budget.hours 24`, warm-up is in steps, a plateau waits epochs, and pretraining
keeps the weights of the best validation accuracy or R2. Hours are those of the machine at hand:
`-s pretrain.budget.hours=null` lifts the limit.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for paper, cited in PAPERS.items():
        parts.append(f"## {cited}\n")
        families: dict[str, list[PaperRecipe]] = defaultdict(list)
        for key in recipe_keys(paper):
            families[key.family].append(paper_recipe(*key))
        parts += [part for name, recipes in families.items() for part in _family(name, recipes)]
    return "\n".join(parts)


def _family(name: str, recipes: list[PaperRecipe]) -> Iterator[str]:
    """First what all recipes of a family have in common, then each with the rest."""
    told = [_told(recipe) for recipe in recipes]
    shared = {path: said for path, said in told[0].items() if all(t.get(path) == said for t in told)}
    remarks = [r for r in recipes[0].remarks if all(r in recipe.remarks for recipe in recipes)]
    yield f"### {name}\n"
    yield "All of them:\n"
    yield from _lines(shared)
    yield from (f"- *{remark}*" for remark in remarks)
    yield ""
    for recipe, own in zip(recipes, told, strict=True):
        yield f"**{recipe.key.task}, {recipe.key.objective}**\n"
        yield from _lines({path: said for path, said in own.items() if path not in shared})
        yield from (f"- *{remark}*" for remark in recipe.remarks if remark not in remarks)
        yield ""


def _told(recipe: PaperRecipe) -> dict[str, tuple[str, str]]:
    """Value and source of every field that has one; of an arm that is like another one, only that it is."""
    told: dict[str, tuple[str, str]] = {}
    for path, value in _leaves("", to_dict(recipe.arms)):
        arm, source = path.partition(".")[0], recipe.source(path)
        if source.startswith(f"{OURS}:") and source == recipe.source(arm):
            told[f"{arm}.everything else"] = "", source
        elif source != DEFAULT:
            told[path] = value, source
    model = {path: said for path, said in told.items() if path.startswith("model.")}
    return {
        path: said for path, said in told.items() if model.get(path.removeprefix("scratch_")) != said
    } | model


def _lines(told: dict[str, tuple[str, str]]) -> Iterator[str]:
    """One line for every source, its fields arm by arm."""
    sources: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, (value, source) in told.items():
        arm, _, field = path.partition(".")
        sources[source][arm].append(f"{field} {value}" if value else field)
    for source, arms in sorted(sources.items(), key=lambda item: item[0].startswith((CODE, OURS))):
        fields = "; ".join(f"`{arm}` {', '.join(arms[arm])}" for arm in ARMS if arm in arms)
        yield f"- {source}: {fields}"


def _leaves(path: str, plain: Any) -> Iterator[tuple[str, str]]:
    """Every number and word, by its path in JSON; ``is`` only of mixers."""
    if not isinstance(plain, dict):
        yield path, f"{plain:g}" if type(plain) is float else str(plain)
        return
    if path.endswith(".mixer"):
        yield f"{path}.is", plain["is"].partition(":")[0].rpartition(".")[2]
    for key, value in plain.items():
        if key != "is" and value is not None:
            yield from _leaves(f"{path}.{key}".lstrip("."), value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
