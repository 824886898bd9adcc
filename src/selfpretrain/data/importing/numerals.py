"""Numbers as text: with a decimal point or, in files of many countries, a decimal comma."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from .source import words

NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"  # regular expression of a number
MEASURED = rf"{NUMBER}|[-+]?[iI]nf(inity)?"  # regular expression of a number that may be infinite
DECIMAL = r"[-+]?\d+,\d+([eE][-+]?\d+)?"  # regular expression of a number with a decimal comma
WHOLE = r"[-+]?\d+([eE][-+]?\d+)?"  # regular expression of a number without either
THOUSANDS = r"[-+]?[1-9]\d{0,2}(,\d{3})+"
"""Regular expression of a number whose commas may separate thousands."""

AMOUNT = r"[-+]?\d{1,3}((\.\d{3})+,\d+|(,\d{3})+\.\d+|( \d{3})+,\d+)"
"""Regular expression of a number that separates both thousands and decimals: 1.120,50 and 1,120.50."""
SPACED = r"[-+]?[1-9]\d{0,2}( \d{3})+"
"""Regular expression of a number whose spaces may separate thousands."""
ODD = (
    r"(?s)[^\p{L}\d]*(array\(|tensor\()?[^\p{L}\d]*\d([^\p{L}]|\d[eE][-+]?\d)*"
    r"(\p{L}{1,4}[^\p{L}\d]*){0,2}(\b(dtype|Name)\W.*)?"
)
"""Regular expression of numbers with units, other signs or brackets: 5 mV, 1'120, [[1, 2]], array([1])."""
POINTED = r"[-+]?[1-9]\d{0,2}\.\d{3}"
"""Regular expression of a number whose point may separate thousands."""

NO_COMMAS = (";", "\t", " ")  # separators of tables in which a comma belongs to a cell

Sign = Literal[".", ",", "?"]
"""Decimal sign of a table; "?": numbers hold commas, and what these mean is not clear."""


def decimal_sign(table: Sequence[pa.Array], separator: str) -> Sign:
    """Return the decimal sign of a table, from some rows of its columns.

    "0,5" may also be a list of two numbers. In a table whose columns are separated by commas, or by nothing,
    one column of such cells is taken for lists, and of several it is not clear. "1,234" may be 1234.
    """
    columns = [column for column in table if has_commas(column)]
    if not columns or (separator not in NO_COMMAS and len(columns) < 2):
        return "."
    in_thousands = all(share_of(column, f"{THOUSANDS}|{WHOLE}") == 1 for column in columns)
    points = any(share_of(column, NUMBER) == 1 > share_of(column, WHOLE) for column in table)
    return "?" if separator not in NO_COMMAS or in_thousands or points else ","


def has_amounts(array: pa.Array) -> bool:
    """Return whether all cells are numbers, some of which separate thousands and decimals."""
    return share_of(array, AMOUNT) > 0 and share_of(array, f"{AMOUNT}|{DECIMAL}|{NUMBER}") == 1


def odd_number(array: pa.Array) -> str:
    """Return what is odd about the first cell that is no plain number, if most cells hold numbers; or ""."""
    if share_of(array, f"{MEASURED}|{ODD}") <= 0.5:
        return ""
    known = words(array).drop_null()
    odd = known.filter(pc.invert(pc.match_substring_regex(known, f"^({MEASURED})$")))
    shown = repr(odd[0].as_py()[:40]) if len(odd) else "numbers"
    return f"{shown}, which is not read as a number; write 1120.5, or [1, 2.5] for a list, without units"


def has_doubtful_points(table: Sequence[pa.Array]) -> bool:
    """Return whether all cells are below 1000 and whole, or have three digits after a point: 718, 1.120."""
    alike = all(share_of(column, rf"{POINTED}|[-+]?\d{{1,3}}") == 1 for column in table)
    pointed = [share_of(column, POINTED) for column in table]
    return alike and 0 < sum(pointed) < len(pointed)


def has_commas(array: pa.Array) -> bool:
    """Return whether most cells are numbers, some with a comma, and none lists three numbers or more."""
    with_comma = f"{DECIMAL}|{THOUSANDS}"
    if share_of(array, f"{with_comma}|{WHOLE}") <= 0.5 or not share_of(array, with_comma):
        return False
    several = r"[-+]?\d+(,\d+){2,}"
    return share_of(array, several) == share_of(array, f"{THOUSANDS},\\d{{3}}")


def with_points(array: pa.Array) -> pa.Array:
    """Return text in which decimal commas of numbers are points."""
    bare = pc.utf8_trim_whitespace(array)
    is_number = pc.match_substring_regex(bare, f"^{DECIMAL}$")
    return pc.if_else(is_number, pc.replace_substring(bare, ",", "."), array)


def share_of(array: pa.Array, pattern: str) -> float:
    """Return the share of known cells that match a pattern; 0 if cells are not text."""
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return 0.0
    known = words(array).drop_null()
    return pc.mean(pc.match_substring_regex(known, f"^({pattern})$").cast("int8")).as_py() or 0.0
