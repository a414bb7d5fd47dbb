"""What a weekly run works on and leaves behind: one source of numbers, and one private report that is held to it.

A review compares an ordered funnel over two periods. The service reads it once, and what it read is the run's one
source: it never changes, and its hash names it. The runner draws up a typed report of metrics, hypotheses and readiness
gaps; it is taken only when it rests on that very source (findings). Nothing in it gives anybody leave to do anything.

Who may do so, and when, is decided beside the run (runs.reporting): this area knows of no run but its name.
"""
