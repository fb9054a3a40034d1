"""Train: from packed shards to one model folder per stage."""

import logging

# transformers loads it by way of peft in every run; on some CPUs it then tells of an optional kernel that is not there
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
