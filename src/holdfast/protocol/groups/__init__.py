"""Shared subscriptions: each event to one of a group, wherever in the network its members are attached.

A group is one subscriber of the network, its home, which lives in one broker (`layer`). Whatever the network promises a
subscriber, it promises the home. The home hands each event to one member (`home`), and keeps it until that member is
done with it (`member`); what a member leaves undone goes to another.
"""
