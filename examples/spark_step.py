"""The script of a step of Spark: mr-dedup's command line, in the session that spark-submit starts.

    spark-submit --master yarn --deploy-mode cluster --archives env.tar.gz#environment \
        --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
        spark_step.py dedup s3://crawl/pages -o s3://crawl/kept -r spark
"""

import sys

from mr_dedup.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["dedup", "--help"]))
