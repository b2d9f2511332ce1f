"""The page Rebalance in Airflow: a FastAPI app that Airflow's API server mounts at `/rebalance`, and the static files it serves.

`app` has the routes, `access` says which pipelines there are and who may see them. The documents themselves come from
`rebalance.documents`; nothing here starts Spark.
"""
