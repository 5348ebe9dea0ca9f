"""Findings for programs. The keys are documented in README.rst, and stay."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy_rep.exceptions import explain
from scrapy_rep.judging import Action

if TYPE_CHECKING:
    from datetime import time

    from scrapy_rep.commands.findings import Copy, Finding, Judgement
    from scrapy_rep.judging import Ruling
    from scrapy_rep.protocol import Agent, Note, Rule, Verdict


def line(value: dict[str, Any]) -> str:
    """Return *value* as one line of JSON, in ASCII: safe in every pipe and terminal."""
    return json.dumps(value)


def finding(found: Finding) -> dict[str, Any]:
    return {
        "url": found.url,
        "problem": found.problem or None,
        "verdicts": [judgement(each) for each in found.judgements],
        "sitemaps": list(found.sitemaps),
        "robots_txt": None if found.copy is None else copy(found.copy),
    }


def judgement(judged: Judgement) -> dict[str, Any]:
    verdict = judged.verdict
    rate, visit = judged.request_rate, judged.visit_time
    return {
        "agent": agent(judged.agent),
        "allowed": judged.allowed,
        "reason": verdict.reason,
        "rule": rule(verdict.rule),
        "lost": [rule(each) for each in judged.lost],
        "groups": [
            {"tokens": list(group.tokens), "line": group.line}
            for group in judged.groups
        ],
        "by_default": judged.by_default,
        "crawl_delay": judged.crawl_delay,
        "request_rate": rate
        and {
            "requests": rate.requests,
            "seconds": rate.seconds,
            "start": clock(rate.start),
            "end": clock(rate.end),
        },
        "visit_time": visit and {"start": clock(visit.start), "end": clock(visit.end)},
        "too_slow": judged.too_slow,
        "now": ruling(judged.ruling),
    }


def ruling(its: Ruling) -> dict[str, Any]:
    objection = its.objection
    return {
        "action": its.action.value,
        "cause": objection and objection.cause,
        "reason": objection and explain(objection.verdict),
        "wait": round_off(its.seconds) if its.action is Action.WAIT else None,
        "left_out": [each.cause for each in its.left_out],
    }


def agent(its: Agent) -> str | list[str]:
    return its if isinstance(its, str) else list(its)


def rule(its: Rule | None) -> dict[str, Any] | None:
    return its and {"allow": its.allow, "path": its.path, "line": its.line}


def clock(moment: time | None) -> str | None:
    return None if moment is None else f"{moment:%H:%M}"


def copy(its: Copy) -> dict[str, Any]:
    return {
        "asked": its.asked,
        "came_by": its.came_by,
        "status": its.status,
        "url": its.url or None,
        "state": its.state or None,
        "hops": [{"status": hop.status, "url": hop.url} for hop in its.hops],
        "failure": its.failure or None,
        "checked": moment(its.checked),
        "age": round_off(its.age),
        "ask_in": round_off(its.ask_in),
    }


def moment(seconds: float | None) -> str | None:
    """Return a time since 1970 in the form of RFC 3339."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat("T", "seconds")


def round_off(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def note(file: str, its: Note) -> dict[str, Any]:
    return {"file": file, **its._asdict()}


def change(url: str, its: Agent, old: Verdict, new: Verdict) -> dict[str, Any]:
    return {
        "url": url,
        "agent": agent(its),
        "old": {"allowed": old.allowed, "reason": old.reason, "rule": rule(old.rule)},
        "new": {"allowed": new.allowed, "reason": new.reason, "rule": rule(new.rule)},
    }
