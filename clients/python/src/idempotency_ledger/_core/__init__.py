"""The rules of a delivery, without threads, tasks, sockets or clocks: both idioms drive the same generators.

A generator yields the next step (`steps.Send`, `steps.Sleep`), is sent its result, and returns what the whole came to.
"""
