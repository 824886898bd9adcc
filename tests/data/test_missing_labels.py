"""A missing label of the y of estimators is no class, however it is written: NaN, NaT, or NA of pandas."""

import numpy as np
import pytest

from selfpretrain.data import labels
from selfpretrain.data.importing.arrays import of_one_type
from selfpretrain.errors import SpecError


class NAType:
    """Stands in for that of ``pandas.NA``, which may not be installed: its comparisons are no booleans."""

    def __eq__(self, other):
        return self

    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__

    def __hash__(self):
        return hash("a")  # as that of a label, so that a dictionary compares the two

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


class NaTType:
    """Stands in for that of ``pandas.NaT``: equal to nothing."""

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 1


MISSING = {
    "None": None,
    "NaN": float("nan"),
    "float16": np.float16("nan"),
    "float32": np.float32("nan"),
    "float64": np.float64("nan"),
    "NaT of NumPy": np.datetime64("NaT"),
    "a duration": np.timedelta64("NaT", "s"),
    "NA of pandas": NAType(),
    "NaT of pandas": NaTType(),
}
missing = pytest.mark.parametrize("nothing", MISSING.values(), ids=MISSING)


@missing
@pytest.mark.parametrize("made", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_it_is_no_class(nothing, made):
    for first, second in (("a", "b"), (0, 1), (False, True)):
        y = [second, nothing, first, second]
        codes, classes = labels.classes_of(np.array(y, dtype=object) if made is np.array else made(y))
        assert (codes.tolist(), classes.tolist()) == ([1, -1, 0, 1], [first, second])
        assert labels.codes_of(y, classes).tolist() == codes.tolist()


@missing
def test_it_is_no_number(nothing):
    for known in (1, 1.5, np.float32(1.5)):
        found = labels.numbers_of([known, nothing, known])
        assert found.dtype == np.float64
        assert np.isnan(found).tolist() == [False, True, False] and found[0] == known


@missing
def test_it_is_no_label_of_a_set_and_of_no_position(nothing):
    found, classes = labels.sets_of([["a", nothing], ["b"], nothing])
    assert (found.tolist(), classes.tolist()) == ([[1, 0], [0, 1], [-1, -1]], ["a", "b"])
    found, classes = labels.positions_of([["a", nothing, "b"], nothing], np.array([3, 2]))
    assert (found.tolist(), classes.tolist()) == ([[0, -1, 1], [-1, -1, -1]], ["a", "b"])
    table = np.array([[0, 1], [nothing, 1], [1, 0]], dtype=object)
    assert labels.sets_of(table)[0].tolist() == [[0, 1], [-1, -1], [1, 0]]


@missing
def test_it_is_masked_in_arrays_that_are_imported(nothing):
    found = of_one_type(["a", nothing, "b"], "y")
    assert np.ma.getmaskarray(found).tolist() == [False, True, False]


def test_dates_may_be_missing_in_an_array():
    for y in (np.array(["2020-01-02", "NaT", "2020-01-01"], "M8[D]"), np.array([2, "NaT", 1], "m8[s]")):
        codes, classes = labels.classes_of(y)
        assert (codes.tolist(), len(classes)) == ([1, -1, 0], 2)
        assert labels.codes_of(list(y), classes).tolist() == [1, -1, 0]


def test_words_called_nan_stay_classes():
    codes, classes = labels.classes_of(["nan", "NaT", "<NA>", np.float32("nan")])
    assert (sorted(classes.tolist()), codes[-1]) == (["<NA>", "NaT", "nan"], -1)
    with pytest.raises(SpecError, match="'nan' is not one of the 2 classes"):
        labels.codes_of(["a", "nan"], np.array(["a", "b"]))


def test_numbers_that_are_no_classes_are_refused_as_before():
    with pytest.raises(ValueError, match="Unknown label type"):
        labels.classes_of([1.5, float("nan"), 2.5])


@pytest.mark.parametrize(
    ("kind", "known"),
    [("Int64", [3, 1]), ("string", ["b", "a"]), ("boolean", [True, False]), ("object", ["b", "a"])],
)
def test_nullable_columns_of_pandas(kind, known):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    column = pandas.Series([known[0], None if kind == "object" else pandas.NA, known[1]], dtype=kind)
    for y in (column, list(column), column.to_numpy()):
        codes, classes = labels.classes_of(y)
        assert (codes.tolist(), classes.tolist()) == ([1, -1, 0], sorted(known))
        assert labels.codes_of(list(y), classes).tolist() == [1, -1, 0]
        if kind == "Int64":
            assert np.isnan(labels.numbers_of(y)).tolist() == [False, True, False]
    table = pandas.DataFrame({"a": [0, 1, pandas.NA], "b": [1, 0, 1]}, dtype="Int64")
    found, classes = labels.sets_of(table)
    assert (found.tolist(), classes.tolist()) == ([[0, 1], [1, 0], [-1, -1]], ["a", "b"])


def test_dates_and_categories_of_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    dates = pandas.to_datetime(pandas.Series(["2020-01-02", None, "2020-01-01"]))
    for y in (dates, list(dates), pandas.Series(["b", None, "a"], dtype="category")):
        codes, classes = labels.classes_of(y)
        assert (codes.tolist(), len(classes)) == ([1, -1, 0], 2)
