"""The banner of HiGHS, kept from stdout, where programs read results."""

import os
import sys
from functools import cache

import highspy


@cache
def swallow_banner() -> None:
    """HiGHS prints a banner to stdout when first constructed, whatever its options say."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
