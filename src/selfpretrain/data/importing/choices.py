"""The choices of an import, in a file of their own: `spt --help` needs no more of it."""

from typing import Literal

Kind = Literal["auto", "text", "tokens", "values"]
"""What sequences hold."""
Target = Literal["auto", "classes", "reals"]
"""What is to be predicted."""
Policy = Literal["refuse", "drop", "cut", "fill", "mask"]
"""What to do about values that are not known."""
