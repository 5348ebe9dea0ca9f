"""What the user asked for, read and checked before anything is done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep import __version__
from scrapy_rep.access.origins import origin_of
from scrapy_rep.protocol import COMPILED
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from typing_extensions import Self

STDIN_NAME = "-"
FORM = "compiled" if COMPILED else "plain Python"
OPTIONS = {
    "urls": "a URL",
    "agents": "--agent",
    "url_list": "--urls",
    "audits": "--report",
    "output": "-o",
    "hosts": "--host",
}
"""Fields that are not named like their options."""
URL_EXPECTED = "an absolute http or https URL such as https://example.com/page"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """What to tell of a fleet's queue, or to do with it."""

    spider: str | None = None
    """Whose queue it is."""
    order: str | None = None
    """"pause", "resume" or "drain"."""
    block: tuple[str, ...] = ()
    unblock: tuple[str, ...] = ()
    purge: tuple[str, ...] = ()
    check: bool = False
    repair: bool = False

    @property
    def acts(self) -> int:
        """Return how many kinds of orders are given; 0: only tell what is there."""
        of_hosts = bool(self.block or self.unblock or self.purge)
        return (self.order is not None) + of_hosts + self.check + self.repair

    def faults(self) -> Iterator[str]:
        if self.acts > 1:
            yield (
                "--pause, --resume, --drain, what is done with hosts, --check and --repair"
                " exclude each other, expected one of them"
            )
        for host in (*self.block, *self.unblock, *self.purge):
            if not host or "/" in host:
                yield f"host is {without_user(host)!r}, expected one as --fleet shows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of one call; ``"-"`` stands for standard input."""

    urls: tuple[str, ...] = ()
    file: str | None = None
    agents: tuple[str, ...] = ()
    """Empty: the agent of the project."""
    lint: bool = False
    json: bool = False
    sitemaps: bool = False
    now: bool = False
    """The exit status tells what would be sent now, rather than what is allowed."""
    compare: tuple[str, str] | None = None
    """The old robots.txt and the new one."""
    url_list: str | None = None
    """The URLs to compare them by."""
    audits: tuple[str, ...] | None = None
    """What to make a report of."""
    output: str | None = None
    """The page to write it to."""
    hosts: tuple[str, ...] = ()
    """Hosts that a report shows in detail in any case, or the only ones shown of a fleet."""
    job: str | None = None
    """The job directory to look at."""
    fleet: FleetOptions | None = None
    """The queue to look at, or what to do with it."""

    @property
    def offline(self) -> bool:
        """Tell whether nothing is fetched."""
        return (
            self.file is not None
            or self.compare is not None
            or self.audits is not None
            or self.job is not None
            or self.fleet is not None
        )

    @classmethod
    def read(cls, args: list[str], opts: argparse.Namespace) -> Self:
        """Return the options, or raise ``UsageError``: what is wrong, what is expected."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in {**vars(opts), "urls": args}.items()
        }
        fleet = FleetOptions(
            **{each.name: given[each.name] for each in fields(FleetOptions)}
        )
        given["fleet"] = None if fleet == FleetOptions() else fleet
        options = cls(**{each.name: given[each.name] for each in fields(cls)})
        for fault in options.faults():
            raise UsageError(fault)
        return options

    def faults(self) -> Iterator[str]:
        for arg in self.urls:
            if arg.startswith("-") and arg != STDIN_NAME:
                yield f"unknown option {arg}; scrapy robots -h lists them"
        if any(not agent.strip() for agent in self.agents):
            yield "--agent is empty, expected a product token or a User-Agent header"
        if self.job is not None:
            yield from self.faults_beside("--job", "--json", "job", "json")
            return
        if self.fleet is not None:
            yield from self.faults_of_fleet(self.fleet)
            return
        if self.audits is not None:
            yield from self.faults_of_report()
            return
        if self.output is not None:
            yield "-o is for --report AUDIT..., expected that beside it"
        if self.hosts:
            yield "--host is for --report and --fleet, expected one of them beside it"
        if self.compare is not None:
            yield from self.faults_of_compare()
            return
        if self.url_list is not None:
            yield "--urls is for --compare OLD NEW; else URLs are given as arguments"
        if self.lint and self.sitemaps:
            yield "--lint and --sitemaps exclude each other, expected one of them"
        if self.file is not None and (self.lint or self.sitemaps):
            if self.urls:
                what = "--lint" if self.lint else "--sitemaps"
                yield f"{what} is about the whole of --file, expected no URL beside it"
        elif not self.urls:
            also = ""
            if self.lint or self.sitemaps:
                also = ", or --file"
            yield f"there is no URL, expected some, or - to read them{also}"
        if self.now and (self.lint or self.sitemaps):
            yield "--now is about requests, expected no --lint or --sitemaps beside it"
        if self.lint and self.agents:
            yield "--lint is about all agents, expected no --agent"
        if self.sitemaps and self.agents:
            yield "--sitemaps is about all agents, expected no --agent"
        if [*self.urls, self.file].count(STDIN_NAME) > 1:
            yield "- is given twice, but standard input can be read only once"
        if self.file is None:
            for url in self.urls:
                if url != STDIN_NAME and origin_of(url) is None:
                    yield f"URL is {without_user(url)!r}, expected {URL_EXPECTED}"

    def faults_beside(self, task: str, others: str, *taken: str) -> Iterator[str]:
        """Yield a fault for each option that *task* does not take.

        *others* are the options that it takes, in words; *taken* are the fields of all those.
        """
        for field in fields(self):
            if field.name not in taken and getattr(self, field.name) != field.default:
                name = OPTIONS.get(field.name, f"--{field.name}")
                yield f"{name} is given with {task}, expected {others} only"

    def faults_of_fleet(self, fleet: FleetOptions) -> Iterator[str]:
        if fleet.spider is None:
            yield "it is not said whose queue is meant, expected --fleet SPIDER"
        others = "--json, --host and what to do with the queue"
        yield from self.faults_beside("--fleet", others, "fleet", "hosts", "json")
        if self.hosts and fleet.acts:
            yield "--host is for what is told of a queue, expected nothing to be done"
        yield from fleet.faults()

    def faults_of_compare(self) -> Iterator[str]:
        yield from self.faults_beside(
            "--compare", "--urls and --agent", "compare", "url_list", "agents", "json"
        )
        if self.url_list is None:
            yield "--compare lacks its URLs, expected --urls FILE, or --urls - to read them"
        if [*(self.compare or ()), self.url_list].count(STDIN_NAME) > 1:
            yield "- is given twice, but standard input can be read only once"

    def faults_of_report(self) -> Iterator[str]:
        yield from self.faults_beside(
            "--report", "-o and --host", "audits", "output", "hosts"
        )
        if self.output is None:
            yield "--report lacks its page, expected -o FILE"
        if (self.audits or ()).count(STDIN_NAME) > 1:
            yield "- is given twice, but standard input can be read only once"


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(title="What to ask")
    group.add_argument(
        "--agent",
        action="append",
        default=[],
        dest="agents",
        metavar="AGENT",
        help="product token or User-Agent to judge for, in place of the project's; give "
        "it several times to compare agents",
    )
    group.add_argument(
        "--file",
        metavar="FILE",
        help="judge by this robots.txt, - is standard input; nothing is fetched",
    )
    group.add_argument(
        "--lint",
        action="store_true",
        help="tell what is wrong with the file; exit 1 if there are errors",
    )
    group.add_argument(
        "--sitemaps", action="store_true", help="list the sitemaps, nothing else"
    )
    group.add_argument(
        "--now",
        action="store_true",
        help="exit 0 only if this project would send a request for each URL now: within "
        "its limits of delays, and in the visit time",
    )
    group.add_argument(
        "--json", action="store_true", help="write JSON, one object a line"
    )
    group.add_argument(
        "--compare",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="tell which URLs change their verdict between two robots.txt files; exit 1 "
        "if any does",
    )
    group.add_argument(
        "--urls",
        dest="url_list",
        metavar="LIST",
        help="file with the URLs to compare, one a line; - is standard input",
    )
    group.add_argument(
        "--report",
        nargs="+",
        dest="audits",
        metavar="AUDIT",
        help="make a page of what a crawl wrote to REP_AUDIT_URI, - is standard input; "
        "give the files of all its workers",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="HTML file to write the report to",
    )
    group.add_argument(
        "--host",
        action="append",
        default=[],
        dest="hosts",
        metavar="HOST",
        help="host that the report shows in detail, however many there are, or that alone "
        "--fleet tells of; may be given several times",
    )
    group.add_argument(
        "--job",
        metavar="DIR",
        help="tell what waits in the job of that JOBDIR, by host; nothing is fetched",
    )
    group.add_argument(
        "--version",
        action="version",
        version=f"scrapy_rep {__version__}; the protocol is {FORM}",
        help="tell the version, and whether the protocol is compiled",
    )
    add_fleet_options(parser)


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(title="A fleet's queue in Redis")
    group.add_argument(
        "--fleet",
        dest="spider",
        metavar="SPIDER",
        help="tell what waits in the queue of that spider, by host, why and until when, and "
        "what its workers have; nothing is fetched",
    )
    for order, does in (
        ("pause", "workers take nothing more from it; what they have is sent"),
        ("resume", "end a --pause or a --drain"),
        ("drain", "workers finish what they have begun, and end"),
    ):
        group.add_argument(
            f"--{order}", action="store_const", const=order, dest="order", help=does
        )
    for name, does in (
        ("block", "hand out none of this host's requests; they stay in the queue"),
        ("unblock", "end that"),
        ("purge", "delete what waits for this host"),
    ):
        group.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="HOST",
            help=f"{does}; may be given several times",
        )
    group.add_argument(
        "--check",
        action="store_true",
        help="tell what is wrong in the queue; exit 1 if anything is",
    )
    group.add_argument(
        "--repair",
        action="store_true",
        help="repair that; exit 1 if requests were lost",
    )
