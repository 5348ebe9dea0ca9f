"""The fuzzer notices what it should. Some rooms' own tests have it try its targets."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from tests.fuzz import clock, run
from tests.fuzz.__main__ import main
from tests.fuzz.targets import TARGETS, Target, make_verdict
from tests.fuzz.worlds import World
from tests.protocol import reference

SEED = 9309


@pytest.mark.parametrize("name", ["coding", "settings"])
def test_nothing_is_found(name):
    tally = run.fuzz(name, 30 * TARGETS[name].share, SEED)
    assert tally.findings == []
    assert tally.inputs == 30 * TARGETS[name].share
    assert tally.decided > tally.inputs / 3


def fuzz_with(monkeypatch, check, count=300):
    monkeypatch.setitem(TARGETS, "mine", Target(1, make_verdict, check))
    return run.fuzz("mine", count, SEED)


def test_a_seed_repeats_the_inputs(monkeypatch):
    runs = []
    for _ in range(2):
        inputs: list[Any] = []
        fuzz_with(monkeypatch, lambda *given, to=inputs: to.append(given))
        runs.append(inputs)
    assert len(runs[0]) == 300
    assert runs[0] == runs[1]
    assert len({str(given) for given in runs[0]}) > 290


def test_inputs_decide_both_ways(monkeypatch):
    outcomes: list[tuple[bool, bool]] = []

    def check(body, url, agent, names):
        allowed, rules = reference.verdict(body, url, *names)
        outcomes.append((allowed, bool(rules)))

    fuzz_with(monkeypatch, check, 600)
    for allowed, by_rule in (True, True), (True, False), (False, True):
        assert outcomes.count((allowed, by_rule)) > 30


def test_an_exception_is_found(monkeypatch):
    def check(body, url, agent, names):
        raise KeyError(url)

    tally = fuzz_with(monkeypatch, check)
    assert tally.inputs == len(tally.findings) == run.MOST_FINDINGS
    assert tally.findings[0].startswith("input 1: (b'")
    assert "KeyError" in tally.findings[0]


def test_a_hang_is_found(monkeypatch):
    def check(body, url, agent, names):
        until = process_time() + 5
        while process_time() < until:
            pass

    monkeypatch.setattr(clock, "HANG", 0.05)
    tally = fuzz_with(monkeypatch, check, 1)
    assert len(tally.findings) == 1
    assert "Hang: more than 0.05 s" in tally.findings[0]


def test_a_wrong_verdict_is_found(monkeypatch):
    from scrapy_rep.protocol import paths

    monkeypatch.setattr(paths, "count_octets", lambda *_, **__: 1)  # allow always wins
    assert run.fuzz("verdict", 3000, SEED).findings


def test_command(monkeypatch, capsys):
    assert main(["--inputs", "50", "--seed", "7", "settings", "coding"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("seed 7, Python 3.")
    assert "settings" in out
    monkeypatch.setitem(
        TARGETS, "coding", Target(1, make_verdict, TARGETS["coding"].check)
    )
    assert main(["--inputs", "50", "--seed", "7", "coding"]) == 1
    assert "TypeError" in capsys.readouterr().out


@pytest.mark.parametrize("obeys", [True, False])
def test_a_world_in_which_nothing_may_be_sent(obeys, tmp_path):
    # A small one; another seed, if other things are drawn.
    world = World(1375, tmp_path)
    assert world.how == "once"
    assert all(each.shut for each in world.robots)
    world.settings["ROBOTSTXT_OBEY"] = obeys
    faults = "\n".join(world.play())
    assert ("were sent" in faults) is not obeys
    assert bool(faults) is not obeys
