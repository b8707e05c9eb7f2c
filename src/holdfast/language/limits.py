"""How large a condition may be. A condition past a limit is refused with its size and the limit."""

TEXT_CHARACTERS_MAX = 65_536  # as written and as printed; a page of SQL is 3,000, a list of thousands fits
DEPTH_MAX = 100  # parentheses within parentheses; people write 3, generators 20
FILTERS_MAX = 1_024  # matching cost and memory grow with this number; (a OR b) eight times over gives 256
CONSTRAINTS_MAX = 16_384  # over all filters, lists by their length: a small text must not grow to megabytes
EXPRESSION_DEPTH_MAX = 64  # operators within operators, and the terms of a sum; people write 3
EXPRESSION_SIZE_MAX = 1_024  # parts of one test, names and constants too: a tenth of a microsecond each when matching
EXPRESSIONS_SIZE_MAX = 2_048  # of all such tests of a condition: 15 µs each to read, while a broker does nothing else
LIKE_GAPPED_MAX = 512  # characters with _ between two %; people write 10. A text of 256 KiB takes 40 ms then
REGEXP_CHARACTERS_MAX = 1_000  # of a regular expression; people write 40
REGEXP_PROGRAM_MAX = 512  # instructions of a compiled one; people's have 50, and one class of all letters 300
REGEXPS_PROGRAM_MAX = 1_024  # of all different ones of a condition: with the next limit 50 ms at worst, usually 1 µs
REGEXP_TEXT_BYTES_MAX = 2_048  # of the text that is searched, in UTF-8: a web address; a longer one is unknown
PATTERNS_MAX = 64  # LIKE tests that one filter puts on one attribute: covering compares each with each
PATTERN_WORK_MAX = 250_000  # characters on which patterns are tried: 50 ms; ten beside a thousand names are 200,000
NAME_CHARACTERS_MAX = 255  # what file systems and databases allow for a name
PROBLEMS_MAX = 20  # more would scroll the first one off the screen
