"""The rules of a delivery, without threads, tasks, sockets or clocks: both idioms drive the same generators.

A generator yields what shall be done (`steps.Send`, `steps.Sleep`), is sent what came of it, and returns its result.
"""
