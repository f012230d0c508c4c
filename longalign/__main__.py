"""`python -m longalign`."""

import sys

from longalign.cli import main

sys.exit(main())
