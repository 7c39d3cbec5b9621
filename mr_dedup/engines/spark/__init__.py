"""The engine that runs jobs on Apache Spark: the session, and tasks on its executors."""
