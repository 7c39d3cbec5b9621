"""The stores as an engine's settings name them: the S3 of an mrjob.conf, a Hadoop beside a command.

The client reads and writes URIs by mr_dedup.storage, which is to find what the engine itself finds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mr_dedup.engines.inputs import ClusterSettings
from mr_dedup.engines.streaming.shipping import conf_options
from mr_dedup.storage.hadoop_configuration import configuration_directory


@contextlib.contextmanager
def stores_of(runner: str, settings: ClusterSettings) -> Iterator[None]:
    """Have URIs read and written with the settings of a cluster, in the block.

    Endpoint, region and credentials of S3 in an mrjob.conf for EMR precede those of the
    environment. For Hadoop the configuration is found beside its command, if not by the
    environment. Raises MrDedupError for a file that is not an mrjob.conf.
    """
    import fsspec

    found = conf_options(runner, settings.conf)
    protocol, wanted = _of_s3(found) if runner == "emr" else _of_hdfs(found, settings.hadoop_bin)
    configured = fsspec.config.conf
    before = configured.get(protocol)
    configured[protocol] = {**(before or {}), **wanted}
    try:
        yield
    finally:
        if before is None:
            del configured[protocol]
        else:
            configured[protocol] = before


def _of_s3(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    of_client = {"endpoint_url": found.get("s3_endpoint"), "region_name": found.get("region")}
    options = {
        "key": found.get("aws_access_key_id"),
        "secret": found.get("aws_secret_access_key"),
        "token": found.get("aws_session_token"),
        "client_kwargs": {name: value for name, value in of_client.items() if value},
    }
    return "s3", {name: value for name, value in options.items() if value}


def _of_hdfs(found: dict[str, Any], hadoop_bin: str | None) -> tuple[str, dict[str, Any]]:
    directory = configuration_directory(hadoop_bin or found.get("hadoop_bin"))
    return "hdfs", {} if directory is None else {"config_dir": str(directory)}
