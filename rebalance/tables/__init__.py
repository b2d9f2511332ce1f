"""All that knows Spark, Delta and Great Expectations. Nothing outside this folder imports them."""
