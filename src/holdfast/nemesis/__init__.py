"""Faults against live brokers and clients, and a judge that shares no code with them; see docs/nemesis.md."""
