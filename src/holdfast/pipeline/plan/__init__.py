"""The planner on Spark, for networks and what-if cases too many for one process."""
