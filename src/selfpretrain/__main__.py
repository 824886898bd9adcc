"""Entry point of ``python -m selfpretrain``; torchrun needs a module to launch."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
