"""Are both markers on the same contour: PathX-256, 256x256 pixels, 65,536 positions read row by row."""

from ..config import spec
from .common import pathfinder
from .common.stored import lra_paths


@spec
class PathX256(pathfinder.PathfinderTask):
    """Are both markers on the same dashed contour? Images of 256 by 256 pixels."""

    card = pathfinder.card(
        baselines="commonest class 50 %, distance between the markers 61 %: read accuracies against that",
        leaks="the distance of the markers alone is informative: it differs between one contour and two",
    )
    places = lra_paths(f"pathfinder256/{pathfinder.FOLDERS['hard']}")
    side = 256


task = PathX256
