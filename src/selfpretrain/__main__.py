"""``python -m selfpretrain`` is ``spt``; torchrun needs it so."""

from .cli.main import main

if __name__ == "__main__":
    main()
