"""Paths: what a label means by an independent look at the picture, and what must not tell it."""

import hashlib

import numpy as np
import pytest
from scipy import ndimage

from selfpretrain.tasks.generators.paths import END, CurveRules, PathImages

USUAL = CurveRules(size=12, shortest=8, longest=12, distractors=2, short=3, gap=1)
OTHERS = (
    CurveRules(8, 5, 8, 1, 2, 1),
    CurveRules(12, 12, 16, 0, 1, 1),
    CurveRules(16, 4, 6, 3, 5, 3),
    CurveRules(64, 42, 64, 10, 16, 1),
)
GOLDEN = {12: "2e5da9025d89c2ba", 8: "75d428419a864672", 16: "2869bf8cf24008d7", 64: "c03c076ce157491a"}


def some(number, rules, seed=0, attempts=10**6):
    images, labels = np.zeros((number, rules.size**2), np.uint8), np.zeros(number, np.int64)
    assert PathImages(seed, rules, number).fill(images, labels, attempts) == number
    return images.reshape(-1, rules.size, rules.size), labels


def ends(images):
    """(n, 2, 2) rows and columns of the marked cells."""
    return np.stack(np.nonzero(images == END)[1:], axis=-1).reshape(-1, 2, 2)


def apart(images):
    return np.abs(np.diff(ends(images), axis=1))[:, 0]


@pytest.fixture(scope="module", params=[USUAL, *OTHERS], ids=lambda rules: f"{rules.size}-{rules.gap}")
def rules(request):
    return request.param


@pytest.fixture(scope="module")
def drawn(rules):
    return some(200 if rules.size > 16 else 2000, rules)


@pytest.fixture(scope="module")
def many():
    return some(40_000, USUAL)


@pytest.mark.parametrize("rules", [USUAL, OTHERS[0], *OTHERS[2:]], ids=lambda rules: str(rules.size))
def test_golden(rules):
    """When these change, so do results on them."""
    images, labels = some(20, rules)
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()[:16] == GOLDEN[rules.size]


def test_both_ends_are_in_one_piece_if_the_label_says_so(drawn):
    """The pieces are found by flooding the picture, which knows nothing of how it was drawn."""
    for image, label, (a, b) in zip(*drawn, ends(drawn[0]), strict=True):
        piece, _ = ndimage.label(image > 0)
        assert (piece[tuple(a)] == piece[tuple(b)]) == (label == 1)


def test_pieces_are_the_curves_that_were_asked_for(drawn, rules):
    for image in drawn[0]:
        piece, number = ndimage.label(image > 0, np.ones((3, 3)))  # touching at a corner would join them
        assert number == 2 + rules.distractors
        sizes = sorted(np.bincount(piece.flat)[1:])
        long = [n for n in sizes if rules.shortest <= n <= rules.longest]
        assert len(long) >= 2
        assert sizes.count(rules.short) >= rules.distractors


def test_curves_keep_their_distance(drawn, rules):
    for image in drawn[0][:200]:
        piece, number = ndimage.label(image > 0, np.ones((3, 3)))
        for one in range(1, number + 1):
            far = ndimage.distance_transform_cdt(piece != one, "chessboard")
            assert far[(piece > 0) & (piece != one)].min(initial=99) > rules.gap


def test_curves_neither_branch_nor_touch_themselves(drawn):
    cross = ndimage.generate_binary_structure(2, 1)
    for image in drawn[0]:
        beside = ndimage.convolve(image.astype(bool).astype(int), cross.astype(int), mode="constant") - 1
        degrees = beside[image > 0]
        piece, number = ndimage.label(image > 0)
        alone = (np.bincount(piece.flat)[1:] == 1).sum()
        assert degrees.max() <= 2
        assert (degrees == 1).sum() == 2 * (number - alone)  # two ends each, and no ring
        assert (beside[image == END] == 1).all()


def test_images_come_in_pairs_of_one_displacement_and_both_classes(drawn):
    images, labels = drawn
    assert ((images == END).sum((1, 2)) == 2).all()
    assert (labels[::2] + labels[1::2] == 1).all()
    assert (apart(images)[::2] == apart(images)[1::2]).all()


def test_the_distance_of_the_ends_tells_nothing(many):
    """Learned on one half and asked on the other, it is right as often as a coin."""
    images, labels = many
    at = apart(images) @ [12, 1]
    sums = np.bincount(at[:20_000], weights=2 * labels[:20_000] - 1, minlength=145)
    right = ((sums[at[20_000:]] > 0) == labels[20_000:]).sum()
    assert 0.49 < right / 20_000 < 0.51


def test_no_place_is_preferred(many):
    """Rows and columns, and their mirror images, are alike; so are the classes in how much is drawn."""
    images, labels = many
    ink = (images > 0).mean(0)
    for other in (ink.T, ink[::-1], ink[:, ::-1]):
        assert abs(ink - other).max() < 5 * (0.25 * 2 / len(images)) ** 0.5
    total = (images > 0).sum((1, 2))
    difference = total[labels == 1].mean() - total[labels == 0].mean()
    assert abs(difference) < 0.5


def test_all_images_are_different(many):
    assert len({image.tobytes() for image in many[0]}) == len(many[0])


def test_small_grids_run_out_of_images_and_those_without_room_have_none():
    rules = CurveRules(8, 8, 8, 0, 1, 6)
    images, labels = np.zeros((50_000, 64), np.uint8), np.zeros(50_000, np.int64)
    found = PathImages(0, rules, 50_000).fill(images, labels, 200_000)
    assert len({image.tobytes() for image in images[:found]}) == found
    assert PathImages(0, CurveRules(8, 40, 40, 0, 1, 1), 10).fill(images[:10], labels[:10], 200) == 0


def test_a_stream_can_be_drawn_in_parts():
    """Layouts go on where they stopped; images do, but for a single one that no longer fits."""
    whole, labels = some(3000, USUAL)
    stream, images, found = PathImages(0, USUAL, 3000), np.zeros((3000, 144), np.uint8), 0
    while found < 3000:
        found += stream.fill(images[found:], labels[found:], 97)
    assert np.array_equal(images.reshape(-1, 12, 12), whole)
    assert not {i.tobytes() for i in some(500, USUAL)[0]} & {i.tobytes() for i in some(500, USUAL, 1)[0]}
