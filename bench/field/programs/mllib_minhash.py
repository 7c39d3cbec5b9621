"""De-duplicate Parquet files with Spark MLlib: MinHashLSH joins similar documents."""

import argparse

from pyspark.ml import Pipeline
from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, size

parser = argparse.ArgumentParser()
parser.add_argument("corpus")
parser.add_argument("kept")
parser.add_argument("--shingle", type=int, default=1, help="words in a shingle")
options = parser.parse_args()

spark = SparkSession.builder.config("spark.driver.memory", "8g").getOrCreate()
documents = spark.read.parquet(options.corpus)
stages = [
    RegexTokenizer(inputCol="text", outputCol="words", pattern=r"\W+"),
    NGram(n=options.shingle, inputCol="words", outputCol="shingles"),
    HashingTF(inputCol="shingles", outputCol="features", binary=True),
]
tokens = Pipeline(stages=stages).fit(documents).transform(documents.select("id", "text"))
# the vector of a text without shingles is empty, which MinHashLSH refuses
features = tokens.filter(size("shingles") > 0).select("id", "features").cache()
model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=5).fit(features)
pairs = model.approxSimilarityJoin(features, features, 0.2)
later = pairs.filter(col("datasetA.id") < col("datasetB.id")).select(col("datasetB.id").alias("id"))
documents.join(later.distinct(), "id", "left_anti").write.parquet(options.kept)
