"""Pathfinder against its definition, against occupancy maps drawn in full, and against reference images."""

import functools
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy import ndimage, stats

from selfpretrain.tasks.generators import _tables, pathfinder
from selfpretrain.tasks.generators.pathfinder import Settings, images, seeds

EACH = [Settings(side, 14, quirks) for side in (32, 64, 128, 256) for quirks in ("lra", "none")]
ALL = [*EACH, Settings(32, 9), Settings(32, 6)]
GOLDEN = {
    "32-14-lra": "f20329071a1cadf0",
    "32-14-none": "4bc7e4dbfabb51d3",
    "64-14-lra": "843544d7f2314b91",
    "64-14-none": "12677f83db8fdc9a",
    "128-14-lra": "fa202961d9dd3bf6",
    "128-14-none": "c6a0428f1ff4db79",
    "256-14-lra": "2cc2270de144431e",
    "256-14-none": "3695810645cb8655",
    "32-9-lra": "d95ec09d063de7f4",
    "32-6-lra": "b22c04d0ac3375c9",
}


def contours(facts, settings):
    """(n, 2, l, 2) row and column where the dashes of both contours start."""
    both = facts.dashes[:, : 2 * settings.length, :2]
    return both.reshape(len(both), settings.length, 2, 2).swapaxes(1, 2)


def markers(facts):
    """(n, 2, 2) row and column of both markers: on a first dash, and on a last one."""
    return np.take_along_axis(facts.dashes, facts.marked[:, :, None].astype(np.int64), axis=1)[:, :, :2]


def some(number, settings, seed=0):
    return images(seeds(seed, np.arange(number)), settings)


@pytest.fixture(scope="module")
def many():
    """2,000 images of 32 pixels."""
    return some(2000, Settings())


def name(settings):
    return f"{settings.resolution}-{settings.length}-{settings.quirks}"


@pytest.fixture(scope="module", params=ALL, ids=name)
def drawn(request):
    """Settings, eight images, their labels, and all that is known of them."""
    return request.param, *some(8, request.param)


def test_golden(drawn):
    """When the images change, so do results on them."""
    settings, pixels, _, facts = drawn
    digest = hashlib.sha256(pixels.tobytes())
    for fact in facts:
        digest.update(fact.tobytes())
    assert digest.hexdigest()[:16] == GOLDEN[name(settings)]


@hypothesis_settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 99), max_size=70), st.integers(1, 4))
def test_an_image_depends_on_its_seed_alone(rows, threads):
    whole = _hundred()
    part = images(seeds(0, np.array(rows, dtype=np.int64)), Settings(), threads)
    for one, other in zip((*part[:2], *part[2]), (*whole[:2], *whole[2]), strict=True):
        assert np.array_equal(one, other[rows])


@functools.cache
def _hundred():
    return some(100, Settings())


def test_margins_are_drawn_per_image():
    facts = some(40, Settings(128, 6))[2]
    again = images(seeds(0, np.arange(20, 40)), Settings(128, 6), threads=2)[2]
    assert set(facts.margins) == {2, 3}
    assert np.array_equal(facts.dashes[20:], again.dashes)


def test_seeds_do_not_repeat():
    found = np.concatenate([seeds(seed, np.arange(10_000)) for seed in (0, 1, 2**63 - 1)])
    assert len(np.unique(found)) == 30_000


def test_labels_are_balanced(many):
    labels = many[1]
    assert set(labels) == {0, 1}
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / math.sqrt(len(labels))


def test_both_markers_are_on_one_contour_if_the_label_says_so(drawn):
    settings, _, labels, facts = drawn
    ends, marked = contours(facts, settings)[:, :, [0, -1]], markers(facts)
    for contour, label, (start, end) in zip(ends, labels, marked, strict=True):
        first = [np.array_equal(contour[i, 0], start) for i in range(2)]
        last = [np.array_equal(contour[i, 1], end) for i in range(2)]
        assert sum(first) == sum(last) == 1
        assert (first == last) == (label == 1)


@pytest.mark.parametrize("settings", EACH[:2], ids=name)
def test_both_contours_end_on_one_pixel_only_with_quirks(settings):
    """Or within one pixel of each other: whose end a marker shows, nobody could tell."""
    ends = contours(some(2000, settings)[2], settings)[:, :, -1].astype(int)
    apart = abs(ends[:, 0] - ends[:, 1]).max(1)
    if settings.quirks == "none":
        assert apart.min() == 2
    else:  # as in the published generator
        assert 0 < (apart == 0).mean() < 0.01
        assert 0.01 < (apart <= 1).mean() < 0.04


def test_a_contour_is_a_chain_of_dashes_with_gaps(drawn):
    """From the end of a first dash, or from a start, it is one gap and one dash to the next start."""
    settings, _, _, facts = drawn
    rules = pathfinder.RULES[settings.resolution]
    paths = contours(facts, settings)[:, :, 1:].astype(float)
    steps = np.hypot(*np.moveaxis(np.diff(paths, axis=2), -1, 0))
    period = rules.dash + 2 * facts.margins[:, None, None]
    assert (steps <= period + 3).all()
    assert steps.mean() > 0.8 * period.mean()


def test_dashes_keep_clear_of_each_other(drawn):
    """Put every mask into a full map, dash by dash: a plain twin of the search among close dashes."""
    settings, _, _, facts = drawn
    for i in range(3):
        tables = next(t for t in pathfinder._tables(settings) if t.margin == facts.margins[i])
        both = 2 * settings.length
        trail = facts.dashes[i, : both + facts.distractors[i] * tables.short].astype(int)
        for at, dash in enumerate(trail):
            if at < 2 or (at >= both and (at - both) % tables.short == 0):
                continue  # first dashes
            old = at - 2 if at < both else at - 1
            before = [j for j in range(old) if j != both - 2]
            taken = _occupied(tables, trail[before])
            assert (taken + _stamp(tables, dash)).max() < 459
            near = np.array(_tables.disk(tables.margin)) + dash[:2]
            near = near[((near >= 0) & (near < tables.size)).all(1)]
            assert taken[near[:, 0], near[:, 1]].max() < 255


def _occupied(tables, dashes):
    taken = np.full((tables.size, tables.size), 255, dtype=int)
    free = slice(tables.padding, tables.size - tables.padding)
    taken[free, free] = 0
    return np.max([taken, *(_stamp(tables, dash) for dash in dashes)], axis=0)


def _stamp(tables, dash):
    """The mask of a dash in an image."""
    half = tables.masks.shape[1] // 2
    wide = np.zeros((tables.size + 2 * half, tables.size + 2 * half), dtype=int)
    y, x, direction = dash
    wide[y : y + 2 * half + 1, x : x + 2 * half + 1] = tables.masks[direction]
    return wide[half:-half, half:-half]


def test_ink_is_where_the_dashes_are(drawn):
    settings, pixels, _, facts = drawn
    rules = pathfinder.RULES[settings.resolution]
    for image, count, trail, marked in zip(
        pixels, facts.distractors, facts.dashes, markers(facts), strict=True
    ):
        dashes = trail[: 2 * settings.length + count * (settings.length // 3)]
        assert (image[dashes[:, 0], dashes[:, 1]] > 40).all()
        far = np.ones(image.shape, dtype=bool)
        far[dashes[:, 0], dashes[:, 1]] = far[marked[:, 0], marked[:, 1]] = False
        distance = ndimage.distance_transform_edt(far)
        assert not image[distance > max(rules.dash + rules.thickness, rules.marker) + 4].any()
        assert image.max() == 255


def test_quirks_decide_where_contours_start_at_32_pixels(many):
    for dashes, allowed in ((many[2].dashes, set(range(30, 60))), (some(300, EACH[1])[2].dashes, None)):
        found = set(dashes[:, 0, 2].tolist())  # directions -180.. are numbered from 0
        assert found <= allowed if allowed else min(found) < 10 and max(found) > 350
    assert some(200, EACH[1])[2].distractors.mean() > 3 * many[2].distractors.mean()


def test_distractors_are_brighter_than_contours_only_with_quirks():
    """At 32 pixels their contrast is 2, that of contours 1.5."""
    for settings, ratio in zip(EACH[:2], (2 / 1.5, 1), strict=True):
        pixels, _, facts = some(300, settings)
        light = [[], []]
        for image, dashes, count in zip(pixels, facts.dashes, facts.distractors, strict=True):
            for which, part in enumerate((dashes[2:26], dashes[28 : 28 + 4 * count])):
                light[which] += image[part[:, 0], part[:, 1]].tolist()
        assert np.mean(light[1]) / np.mean(light[0]) == pytest.approx(ratio, rel=0.1)


def test_no_images_are_none():
    pixels, labels, facts = images(seeds(0, np.arange(0)), Settings())
    assert pixels.shape == (0, 32, 32)
    assert labels.shape == facts.tries.shape == (0,)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_lines_are_those_of_pillow(width):
    image, draw = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageDraw")
    for degrees in range(0, 360, 7):
        end = tuple(math.ceil(20 + 10 * f(math.radians(degrees))) for f in (math.sin, math.cos))
        canvas = image.new("L", (41, 41))
        draw.Draw(canvas).line([(20, 20), end[::-1]], fill=255, width=width)
        assert np.array_equal(_tables.line(41, end, width), np.array(canvas) > 0)


@pytest.mark.parametrize(("large", "small"), [(41, 21), (46, 23), (64, 32), (17, 9)])
def test_images_are_reduced_as_by_pillow(large, small):
    image = pytest.importorskip("PIL.Image")
    drawn = np.random.default_rng(0).random((5, large, large)) < 0.3
    for one, ours in zip(drawn, _tables.reduce(drawn, small), strict=True):
        theirs = image.fromarray(one.astype(np.uint8) * 255).resize((small, small), image.Resampling.LANCZOS)
        assert np.array_equal(ours, np.array(theirs))


SHARES = (0, 15, 63, 127, 200)


def measured(pixels, tips, distractors):
    """Per image: ink, parts, distractors, where the contours begin and end, and how far apart."""
    half, light = pixels.shape[1] // 2, pixels / 255
    found = {"mean": light.mean((1, 2)), "distractors": distractors}
    found |= {f"share > {level}": (pixels > level).mean((1, 2)) for level in SHARES}
    for i, rows in enumerate((slice(half), slice(half, None))):
        for j, columns in enumerate((slice(half), slice(half, None))):
            found[f"ink in quadrant {i}{j}"] = light[:, rows, columns].mean((1, 2))
    found["parts"] = np.array([ndimage.label(image > 63, np.ones((3, 3)))[1] for image in pixels])
    for end, contour, axis in np.ndindex(2, 2, 2):
        found[f"tip {end}{contour}{axis}"] = tips[:, end, contour, axis]
    for a, b in np.ndindex(2, 2):
        apart = tips[:, 0, a].astype(float) - tips[:, 1, b]
        found[f"distance {a}{b}"] = np.hypot(apart[:, 0], apart[:, 1])
    return found


@pytest.mark.slow
@pytest.mark.needs_data("reference_fixtures")
@pytest.mark.parametrize(("side", "number"), [(32, 8000), (128, 1500), (256, 3000)])
def test_statistics_are_those_of_the_reference(needs_data, side, number):
    """Means within two standard errors, and whole distributions, of images by the original program."""
    with np.load(needs_data / f"reference_fixtures/pathfinder{side}_reference.npz") as arrays:
        reference = dict(arrays)
    settings = Settings(side)
    pixels, labels, facts = some(number, settings)
    tips = contours(facts, settings)[:, :, [0, -1]].swapaxes(1, 2)
    theirs = measured(reference["images"], reference["tips"], reference["distractors"])
    ours = measured(pixels, tips, facts.distractors)
    for key, values in theirs.items():
        error = math.hypot(values.std() / math.sqrt(len(values)), ours[key].std() / math.sqrt(number))
        assert abs(ours[key].mean() - values.mean()) < 2 * error, key
        assert stats.ks_2samp(values, ours[key]).pvalue > 0.01, key
    _same_counts(reference["distractors"], facts.distractors)
    _same_counts(reference["labels"], labels)
    _same_counts(reference["margin"], facts.margins)
    n = len(reference["labels"])
    kept = n / int(reference["two_tries"]), number / facts.tries.sum()
    assert abs(kept[0] - kept[1]) < 2 * math.hypot(kept[0] / math.sqrt(n), kept[1] / math.sqrt(number))
    smooth = [ndimage.uniform_filter(p.mean(0), side // 8) for p in (reference["images"], pixels)]
    assert np.corrcoef(smooth[0].ravel(), smooth[1].ravel())[0, 1] > 0.9
    grey = [np.bincount(p.ravel(), minlength=256) / len(p) for p in (reference["images"], pixels)]
    assert not ((grey[0] == 0) & (grey[1] > 0.1)).any()
    assert not ((grey[1] == 0) & (grey[0] > 0.1)).any()


def _same_counts(theirs, ours):
    table = np.array([np.bincount(x, minlength=10) for x in (theirs, ours)])
    table = table[:, table.sum(0) > 5]
    assert table.shape[1] == 1 or stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.slow
def test_the_distance_between_markers_tells_little(many):
    """Long Range Arena's images give away 54 % at 32 pixels and 62 % at 256 by this distance alone."""
    for (_, labels, facts), most in ((many, 0.57), (some(2000, Settings(256)), 0.66)):
        apart = np.diff(markers(facts).astype(float), axis=1)[:, 0]
        distance = np.hypot(apart[:, 0], apart[:, 1])
        bins = np.digitize(distance, np.quantile(distance, np.arange(0.1, 1, 0.1)))
        right = sum(max(np.bincount(labels[bins == b], minlength=2)) for b in range(10))
        assert right / len(labels) < most
