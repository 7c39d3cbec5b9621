"""mr_dedup.dedup with a session of Spark that its caller has."""

import pytest

import mr_dedup
from mr_dedup.engines.spark.sessions import open_session
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

pytestmark = [*sessions.MARKS]


def test_a_session_is_an_engine(tmp_path):
    from pyspark.sql import SparkSession

    pages = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1))
    mr_dedup.dedup(pages, tmp_path / "memory")
    with sessions.master("local[2]"):
        session = SparkSession.builder.master("local[2]").getOrCreate()
        try:
            mr_dedup.dedup(pages, tmp_path / "spark", engine=session)
            assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")
            # a session that is not the active one would not be used
            other = session.newSession()
            with pytest.raises(ValueError, match="not the active session of Spark"):
                mr_dedup.dedup(pages, engine=other)
        finally:
            session.stop()


def test_properties_that_are_given_replace_those_of_every_session():
    name = "spark.shuffle.sort.bypassMergeThreshold"
    for given, expected in [((), "1"), ((f"{name}=7",), "7")]:
        with sessions.master("local[1]", properties=given) as settings:
            assert open_session(settings).sparkContext.getConf().get(name) == expected
