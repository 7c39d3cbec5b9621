"""``python -m data_gen``: the data-gen command."""

import sys

from data_gen.cli import main

if __name__ == "__main__":
    sys.exit(main())
