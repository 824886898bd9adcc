"""List every recipe of the papers, with the place in the paper where each number stands.

The documentation has the list in ``docs/recipes.md`` when it is built; run as a script, this prints it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from selfpretrain.config import to_dict
from selfpretrain.studies.recipes.reported import PAPERS, paper_recipe, recipe_keys
from selfpretrain.studies.recipes.tables import CODE, DEFAULT, OURS, PaperRecipe

ARMS = ("model", "pretrain", "finetune", "scratch_model", "scratch")


def page() -> str:
    """Return the list as Markdown."""
    parts = list[str]()
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
    print(page())
