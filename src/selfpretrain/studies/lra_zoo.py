"""Do the efficient Transformers of Long Range Arena keep their order once all are self-pretrained?

Source: our question; the rows are those of Gu et al. (2022), Table 10, and the upper half of Table 1 of
Amos et al. (2024), which quote Tay et al. (2021) from scratch only. But for the Transformer, no paper that
we know shows these architectures with self-pretraining.

Protocol: every architecture with the same width, depth, budget and learning rates; from scratch with the
compute of pretraining and finetuning together, and self-pretrained with the masked objective.

Expected: no more than that differences shrink.

What differs: one task; at the small scale pictures of paths, where the gain is large, with windows and blocks
cut to their 16 positions; learning rates were not tuned for each architecture.
"""

from ..config import spec
from .common.table_study import IMAGE, PATHFINDER, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT
from .recipes.tables import read_mixer, read_table

ROWS = read_table("lra_zoo")
"""Mixers as in the benchmark, and settings for the small scale, with windows that divide 16 positions."""


@spec
class Zoo(TableStudy):
    """Two arms per architecture."""

    columns = (MATCHED, SPT)
    paper = "gu2022"
    paper_recipes = "amos"
    tasks = (IMAGE,)
    small_tasks = (PATHFINDER,)
    architectures = tuple(
        TableRow(
            row["row"],
            read_mixer(row["mixer"]),
            "like:transformer-dagger",
            small=read_mixer(row["mixer"], row["small"]),
        )
        for row in ROWS
    )
    table = "Table 10"
    paper_rows = {(row["row"], MATCHED): row["row"] for row in ROWS if row["source"].endswith("Table 10")}


study = Zoo
