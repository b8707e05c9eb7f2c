"""How large a condition may be. A condition past a limit is refused with its size and the limit."""

TEXT_CHARACTERS_MAX = 65_536  # as written and as printed; a page of SQL is 3,000, a list of thousands fits
DEPTH_MAX = 100  # parentheses within parentheses; people write 3, generators 20
FILTERS_MAX = 1_024  # matching cost and memory grow with this number; (a OR b) eight times over gives 256
CONSTRAINTS_MAX = 16_384  # over all filters, lists by their length: a small text must not grow to megabytes
EXPRESSION_DEPTH_MAX = 64  # operators within operators, and the terms of a sum; people write 3
EXPRESSION_SIZE_MAX = 1_024  # parts of one test, names and constants too: a tenth of a microsecond each when matching
PATTERNS_MAX = 64  # LIKE tests that one filter puts on one attribute: covering compares each with each
NAME_CHARACTERS_MAX = 255  # what file systems and databases allow for a name
PROBLEMS_MAX = 20  # more would scroll the first one off the screen
