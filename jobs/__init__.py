"""The five jobs: one file per verb, each to be given to spark-submit or called from a DAG."""
