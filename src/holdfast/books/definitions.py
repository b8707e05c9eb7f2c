"""Numbers that are part of what a promise means (docs/promises.md).

Both judges take them from here: they work independently, but they judge the same promise.
"""

KNOWN_US = 300_000  # after which every broker of a small network has heard of a subscription
LEARNT = 20  # events of a source from which a subscriber learns how long to wait: they may come in any order,
LEARNT_US = 2_000_000  # as may those before the source has been told that somebody keeps its order
STANDARD_ERRORS = 3  # by which a share may be above its target: one honest run in a thousand
LATELY_US = 2_000_000  # before a failure: as long as events took then, one may have been on its way when it happened
CARRIERS = ("Publish", "Deliver")  # kinds of message that carry events for the first time
