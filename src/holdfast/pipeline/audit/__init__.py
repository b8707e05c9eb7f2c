"""What was owed, what arrived, and which promises held: a run's trace, judged on Spark."""
