"""Which subscriptions want an event: `scan` is the oracle, `index` serves one event, `columns` a batch."""
