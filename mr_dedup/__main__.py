"""Run mr-dedup as ``python -m mr_dedup``."""

import sys

from mr_dedup.cli.main import main

sys.exit(main())
