"""Are both markers on the same contour: Pathfinder, 32x32 or 64x64 pixels, read row by row."""

from typing import Literal

from ..config import spec
from .common import pathfinder
from .common.stored import lra_paths


@spec
class Pathfinder(pathfinder.PathfinderTask):
    """Are both markers on the same dashed contour? Images of 32 by 32 (or 64 by 64) pixels."""

    card = pathfinder.card(
        baselines="commonest class 50 %, distance between the markers 54 %",
        leaks="none known; by the published rules distractors are brighter than contours at 32 pixels, and "
        "both contours end on one pixel in 0.4 % of the images (not with quirks=none)",
    )
    places = lra_paths(f"pathfinder32/{pathfinder.FOLDERS['hard']}")

    resolution: Literal[32, 64] = 32  # pixels per side

    @property
    def side(self) -> int:  # type: ignore[override]  # it depends on a field
        """Return the pixels per side: ``resolution``."""
        return self.resolution


task = Pathfinder
