"""What is published and who wants it: one file per kind of workload."""
