"""``python -m selfpretrain`` is ``spt``; torchrun needs it so."""

from .launch import main

main()
