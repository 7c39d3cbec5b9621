"""De-duplicate Parquet files with distributed-curator, on Spark on this machine."""

import argparse

from distributed_curator import get_jar_path, partition_aware_deduplicate
from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
parser.add_argument("corpus")
parser.add_argument("kept")
parser.add_argument("--partitions", type=int, default=1000)
options = parser.parse_args()

builder = SparkSession.builder.config("spark.jars", get_jar_path())
builder = builder.config("spark.driver.memory", "8g")
spark = builder.config("spark.sql.shuffle.partitions", options.partitions).getOrCreate()
documents = spark.read.parquet(options.corpus).withColumnRenamed("id", "doc_id")
result = partition_aware_deduplicate(
    spark=spark, input_df=documents, num_partitions=options.partitions
)
kept = result.filter(~result.is_duplicate)
kept.withColumnRenamed("doc_id", "id").select("id", "text").write.parquet(options.kept)
