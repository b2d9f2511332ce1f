"""What a pipeline shows and asks in Airflow."""

#: Key under which a task leaves what went wrong, for the notes on its run.
TROUBLE = "trouble"
