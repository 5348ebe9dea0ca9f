"""A fuzzer: inputs made to break, checked against what must always hold.

Run it from a checkout, with the extra ``test`` installed:

    python -m tests.fuzz --inputs 1000000 --seed 1
"""
