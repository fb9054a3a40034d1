"""The programs of stagecraft, each started as `python -m scripts.AREA.NAME`.

Python searches for garbage after every 700 new objects. torch and transformers make a million while they are imported,
and all of them stay: these searches took 40% of a start's processor time. So there are none until `run` in
scripts/common/cli.py calls the program. Where pytest or Snakemake import these modules, nothing changes.
"""

import gc
import sys

if sys.argv[:1] == ["-m"]:  # what Python puts there until it has found the module that it is to run
    gc.disable()
