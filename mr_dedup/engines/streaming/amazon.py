"""The way to what needs boto3, which the extra ``emr`` brings."""

from __future__ import annotations

from types import ModuleType

from mr_dedup.errors import MrDedupError


def emr_module() -> ModuleType:
    """Return mr_dedup.engines.streaming.emr; raises MrDedupError if boto3 is not installed."""
    try:
        from mr_dedup.engines.streaming import emr
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise MrDedupError("-r emr needs boto3: pip install 'mr-dedup[emr]'") from error
    return emr
