"""Paper 003: replication on demand."""
