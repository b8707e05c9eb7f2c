"""Order: hold a message back only while an earlier one that matters is likely to arrive (paper 002).

`Latch(settings)` is the machine of one client; duplicates are removed before it (`protocol.seen`). Facts and times go
in, `Release(item, late, held_us)` and `Dropped(item)` come out, `next_due_us()` says when to call `on_timer(now_us)`:

    on_message(source, seq, departure_us, arrival_us, relevant_gaps, item, is_repair, epoch)
    on_lost(source, seq, now_us)                     no more hope for this one, or no more interest in it
    lost_by_us(source, departure_us, now_us)         for the recovery machine: when to take a missing one for lost

`relevant_gaps` are (seq, departure_us) of earlier numbers that the publication record shows to be relevant and that
have not come. What no record speaks of is not waited for. `departure_us` is read off the publisher's clock and the
other times off ours; offsets cancel. `LatchSettings.mode` is "fifo", where an estimator says how long to wait for each
gap, or "strict", where a repair or a declared loss ends the wait, and which `protocol.assurance` chooses wherever
recovery asks for what is missing. With `late="drop"` no order is ever violated.

One file is one idea: `latch` the machine, `waiting` what one source waits for, `conformal` and `steering` the default
estimator, `difference` the rule of the paper with the laws `parametric`, `bernstein` and `quantile`, `window` samples.
Conformal ones keep the realised share at the target, Bernstein's below it; the other two promise no rate.
"""
