"""Some hundred processes import the same modules: what one has compiled is kept for the others."""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
