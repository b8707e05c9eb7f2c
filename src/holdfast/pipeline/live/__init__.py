"""A live network as a Spark table: `format("holdfast")`, source and sink."""
