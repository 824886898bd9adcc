"""Are both markers on the same contour: PathX, 128x128 pixels, 16,384 positions read row by row."""

from ..config import spec
from .common import pathfinder
from .common.stored import lra_paths


@spec
class PathX(pathfinder.PathfinderTask):
    """Are both markers on the same dashed contour? Images of 128 by 128 pixels."""

    card = pathfinder.card(
        baselines="commonest class 50 %, distance between the markers 54 %",
        leaks="the release holds two folders pathfinder128, one of which is said to be unlearnable (95 % on "
        "its training images, chance on others): with source=lra, try a small convolutional network first",
    )
    places = lra_paths(f"pathfinder128/{pathfinder.FOLDERS['hard']}")
    side = 128


task = PathX
