"""List where we do otherwise than the papers and their code, and why.

What holds for all recipes is typed in ``tools/deviations.tsv``, some with an expression that is true as
long as it holds, which a test evaluates; what holds for one recipe or one study comes from the remarks and
docstrings of the code. The documentation has the list in ``docs/papers.md`` when it is built; run as a
script, this prints it.
"""

import csv
from pathlib import Path

from selfpretrain.registry import find, names
from selfpretrain.studies.base import about
from selfpretrain.studies.recipes.reported import PAPERS, paper_recipe, recipe_keys
from selfpretrain.studies.recipes.tables import PaperRecipe

TABLE = Path(__file__).with_name("deviations.tsv")
HEAD = """| what | there | here | why | the other way |
| --- | --- | --- | --- | --- |
"""


def lines() -> list[dict[str, str]]:
    """Return the typed table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def page() -> str:
    """Return the lists as Markdown."""
    rows = [
        f"| {x['topic']} | {x['there']} | {x['here']} | {x['why']} | {x['paper' + chr(39) + 's way']} |"
        for x in lines()
    ]
    parts = [HEAD + "\n".join(rows), "\n### Of single recipes\n"]
    for paper, cited in PAPERS.items():
        recipes = [paper_recipe(*key) for key in recipe_keys(paper)]
        parts.append(f"\n**{cited}**\n")
        parts += [f"- {remark}: {where}." for remark, where in _remarks(recipes).items()]
    parts.append("\n### Of single studies\n")
    for name in names("studies"):
        said = about(find("studies", name).at_scale("small", 1)).get("What differs", "")
        parts += [f"- **{name}**: {said}"] if said else []
    return "\n".join(parts) + "\n"


def _remarks(recipes: list[PaperRecipe]) -> dict[str, str]:
    """Every remark with the recipes that it is about."""
    found: dict[str, dict[str, list[str]]] = {}
    for recipe in recipes:
        for remark in recipe.remarks:
            families = found.setdefault(remark, {})
            families.setdefault(recipe.key.family, []).append(f"{recipe.key.task}, {recipe.key.objective}")
    return {
        remark: "; ".join(
            f"{family} ({', '.join(dict.fromkeys(tasks))})" for family, tasks in families.items()
        )
        for remark, families in found.items()
    }


if __name__ == "__main__":
    print(page(), end="")
