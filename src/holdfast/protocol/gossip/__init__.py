"""Epidemic recovery in the brokers (paper 001): what some have lost, others have cached, and rounds of gossip find it.

`layer` puts the machine, `gossip`, around a broker; `styles` are the policies by which it chooses what to say and to
whom.
"""
