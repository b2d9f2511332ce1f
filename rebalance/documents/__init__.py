"""What pages, reports and `--json` show of a pipeline, as plain data: dictionaries, lists, text and numbers that `json.dumps` takes.

One module per document. Numbers are raw (bytes, seconds, loads; shares from 0 to 1), times are ISO 8601 in UTC, keys are text, and what
is not there is None. Nothing here starts Spark, and only the small tables are read, except the statistics of the one interval or key that
was asked for.
"""
