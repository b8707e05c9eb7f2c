"""The judge: it reads journals and evaluates conditions with DuckDB.

It imports nothing of the product: a fault that a node and its judge shared would go unseen.
"""
