"""What a pipeline shows and asks in Airflow."""
