"""Order: hold a message back only while an earlier one that matters is likely to arrive (paper 002).

`Latch(settings)` is the machine of one client that keeps "fifo"; `protocol.duplicates` removes duplicates before it.
Facts and times go in, `Release(item, late, held_us)` and `Dropped(item)` come out, `next_due_us()` says when to call
`on_timer(now_us)`:

    on_message(source, seq, departure_us, arrival_us, relevant_gaps, item, is_repair, epoch)
    on_lost(source, seq, now_us)                     no more hope for this one, or no more interest in it
    passes(source, seqs, departure_us, arrival_us)   several at once, where nothing is missing

`relevant_gaps` are (seq, departure_us) of earlier numbers that the publication record shows to be relevant and that
have not come. What no record speaks of is not waited for. `departure_us` is read off the publisher's clock and the
other times off ours; offsets cancel. An estimator says how long to wait for each gap. With `late="drop"` no order is
ever violated. `StrictQueue(settings)` keeps "strict", and "fifo" wherever recovery asks for what is missing: what waits
there is let go when whoever looks for missing ones says so.

One file is one idea: `latch` and `strict` the machines, `waiting` what one source waits for, `conformal` and `steering`
the default estimator, `delay_difference` the rule of the paper with the laws `parametric`, `bernstein` and
`empirical`, `sample_window` the samples.
Conformal ones keep the realised share at the target, Bernstein's below it; the other two promise no rate.
"""
