"""Fetching with the standard library: each kind of answer, and every limit."""

from __future__ import annotations

import gzip
import socket
import time
from contextlib import contextmanager, suppress
from threading import Thread

import pytest

from scrapy_rep.compat import urllib_fetch as module
from scrapy_rep.compat.urllib_fetch import fetch
from scrapy_rep.protocol.answers import Access
from scrapy_rep.protocol.decoding import MAX_SIZE
from tests.site import Reply, Site
from tests.tls import server_context

DISALLOW_P = "User-agent: *\nDisallow: /p\n"
OK, NONE, AWAY = Access.SUCCESSFUL, Access.UNAVAILABLE, Access.UNREACHABLE
DENIED = Access.DENIED


def redirect(location):
    return Reply(status=302, headers={"Location": location})


def with_headers(body, **headers):
    return Reply(
        body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def answer_of(reply, **options):
    with Site({"/robots.txt": reply}) as site:
        return fetch(site.url("/robots.txt"), **options)


GZIPPED = gzip.compress(DISALLOW_P.encode())
UTF_16 = "User-agent: *\nDisallow: /p".encode("utf-16")


@pytest.mark.parametrize(
    ("reply", "access", "allowed"),
    [
        pytest.param(DISALLOW_P, OK, False, id="38-200"),
        pytest.param(Reply(status=403), DENIED, False, id="45-403"),
        pytest.param(Reply(reset=True), AWAY, False, id="48-reset"),
        pytest.param(Reply(""), OK, True, id="54-200, empty"),
        pytest.param(Reply("", cut=9), AWAY, False, id="54-nothing of nine octets"),
        pytest.param(Reply("Allow: /", cut=9), AWAY, False, id="54-cut short"),
        pytest.param(redirect("/robots.txt"), NONE, True, id="41-redirect loop"),
        pytest.param(redirect("file:///etc/hosts"), AWAY, False, id="43-to a file"),
        pytest.param(with_headers(GZIPPED, Content_Encoding="gzip"), OK, False, id="gzip unasked"),
        pytest.param(with_headers(UTF_16, Content_Type="x; charset=utf-16"), OK, False, id="33"),
    ],
)  # fmt: skip
def test_answers(reply, access, allowed):
    answer = answer_of(reply, timeout=5)
    assert answer.access is access
    assert answer.policy().allowed("/p", "x") is allowed


def test_40_redirects_lead_to_another_host_but_not_on_and_on():
    with Site({"/r": DISALLOW_P}, host="127.0.0.2") as other, Site() as site:
        site.replies["/robots.txt"] = redirect("/1")
        site.replies["/1"] = redirect(other.url("/r"))
        assert fetch(site.url("/robots.txt")).access is OK
        assert fetch(site.url("/robots.txt"), max_redirects=1).access is NONE


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "\xb927.0.0.1", "l\xbacalh\xbast", "[::127.0.0.1]"]
)
def test_43_a_public_host_leads_to_no_private_one(host, monkeypatch):
    """The public host is behind a proxy of the environment, which is used, too."""
    with Site({"/secret": "Allow: /"}) as private, Site() as proxy:
        url = f"http://{host}:{private.port}/secret"
        proxy.replies["http://example.invalid/robots.txt"] = redirect(url)
        monkeypatch.setenv("http_proxy", proxy.origin)
        answer = fetch("http://example.invalid/robots.txt")
        assert proxy.paths == ["http://example.invalid/robots.txt"]
        assert private.hits == []
    assert answer.access is AWAY
    assert "redirect from a public host" in answer.reason


@pytest.mark.parametrize(
    "url", ["", "/robots.txt", "example.com", "file:///etc/hosts", "ftp://127.0.0.1/r"]
)
def test_only_http_and_https(url):
    with pytest.raises(ValueError, match="expected an absolute http or https URL"):
        fetch(url)


def test_https_is_verified(tmp_path, monkeypatch):
    with Site({"/robots.txt": DISALLOW_P}, tls=server_context(tmp_path)) as site:
        url = f"https://localhost:{site.port}/robots.txt"
        answer = fetch(url)
        assert answer.access is AWAY
        assert "CERTIFICATE_VERIFY_FAILED" in str(answer.fault)
        assert site.hits == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        assert fetch(url).access is OK
        assert fetch(site.url("/robots.txt")).access is AWAY  # another name's


@contextmanager
def server(*answers, tls=None):
    """A server for as many connections: an answer is what it does with the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            for answer in answers:
                connection, _ = listening.accept()
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection:
                    connection.recv(4096)
                    with suppress(OSError):  # the client went away
                        answer(connection)

        thread = Thread(target=serve)
        thread.start()
        scheme = "https" if tls else "http"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/robots.txt"
        thread.join()


@pytest.mark.parametrize(
    "head", ["", "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\n\r\n"]
)
def test_timeout_of_what_never_ends(head):
    def drip(connection):
        connection.sendall(head.encode())
        for _ in range(100):
            connection.sendall(b"x" * bool(head))
            time.sleep(0.02)

    with server(drip) as url:
        start = time.monotonic()
        answer = fetch(url, timeout=0.3)
        assert 0.2 < time.monotonic() - start < 1.5
    assert answer.access is AWAY
    assert isinstance(answer.fault, TimeoutError)


OCTETS = [
    (AWAY, b"SSH-2.0-OpenSSH_9\r\n"),
    (AWAY, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nAllow: /"),
    (AWAY, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000),
    (AWAY, b""),
    (NONE, b"HTTP/1.1 404\r\n\r\n"),
    (NONE, b"HTTP/1.0 404 \xff\n\n"),
    (AWAY, b"HTTP/1.1 404 Not Found"),
    (AWAY, b"HTTP/1.1 404" + b"x" * 70_000 + b"\r\n\r\n"),
    *(
        (AWAY, b"HTTP/1.1 %s OK\r\n\r\n" % status)
        for status in b"0404,4_04,+404,00200,2_00,404x,-404,, 404".split(b",")
    ),
    (AWAY, b"HTTP/1.1 200 OK\r\nno field\r\nContent-Encoding: gzip\r\n\r\nAllow: /"),
    (AWAY, b"HTTP/1.1 200 OK\r\n folded\r\nContent-Length: 99\r\n\r\nAllow: /"),
    (
        OK,
        b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x\r\nContent-Length: 8\r\n\r\nAllow: /",
    ),
    (
        AWAY,
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 8\r\n\r\nAllow: /",
    ),
    (
        AWAY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n8\r\nAllow: /\r\n0\r\n\r\n",
    ),
]


@pytest.mark.parametrize(("access", "octets"), OCTETS, ids=lambda each: str(each)[:50])
def test_octets(access, octets):
    with server(lambda connection: connection.sendall(octets)) as url:
        assert fetch(url, timeout=5).access is access


@pytest.mark.parametrize(
    "length", ["", "Content-Length: x\r\n", "Content-Length: -1\r\n"]
)
@pytest.mark.parametrize(
    ("came", "access"), [(DISALLOW_P, OK), (DISALLOW_P[:14], AWAY)]
)
def test_54_a_file_without_a_length_has_to_come_twice(length, came, access):
    def answers(body):
        octets = f"HTTP/1.1 200 OK\r\n{length}\r\n{body}".encode()
        return lambda connection: connection.sendall(octets)

    with server(answers(came), answers(DISALLOW_P)) as url:
        answer = fetch(url, timeout=5)
    assert answer.access is access
    assert not answer.policy().allowed("/p", "x")


@pytest.mark.parametrize("body", [b"", b"User-agent: *\n"], ids=["no body", "some"])
def test_48_a_reset_ends_no_body(body):
    answer = answer_of(
        Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + body, broken=True), timeout=5
    )
    assert answer.access is AWAY
    assert isinstance(answer.fault, ConnectionResetError)


@pytest.mark.parametrize(
    ("head", "alert", "access"),
    [
        pytest.param("", True, OK, id="closed"),
        pytest.param("", False, AWAY, id="cut off"),
        pytest.param("Content-Length: 8\r\n", False, OK, id="cut off after its end"),
    ],
)
def test_48_tls_tells_of_the_end_of_a_body(head, alert, access, tmp_path, monkeypatch):
    """RFC 9112 9.8: what nothing delimits is whole after a closure alert only."""
    context = server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))

    def answer(connection):
        connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\nAllow: /".encode())
        if alert:
            connection.unwrap()

    with server(answer, tls=context) as url:
        assert fetch(url.replace("127.0.0.1", "localhost")).access is access


def test_48_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    answer = fetch(f"http://127.0.0.1:{port}/robots.txt")
    assert answer.access is AWAY
    assert isinstance(answer.fault, ConnectionRefusedError)
    assert fetch("http://example.invalid/robots.txt", timeout=5).access is AWAY


@pytest.mark.parametrize("encoded", [False, True])
def test_35_size_limit_on_whole_lines(encoded):
    body = ((DISALLOW_P + "#" * 100 + "\n") * 50_000).encode()
    coded = with_headers(gzip.compress(body), Content_Encoding="gzip")
    answer = answer_of(coded if encoded else Reply(body))
    assert answer.access is OK
    assert MAX_SIZE - 200 < len(answer.body) <= MAX_SIZE
    assert answer.body.endswith(b"\n")


def test_a_stream_without_end_is_left_at_the_limit():
    def flood(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"Disallow: /p\n" * 1000)

    with server(flood) as url:
        assert len(fetch(url, timeout=10).body) <= MAX_SIZE


def test_the_request():
    with Site() as site:
        fetch(site.url("/robots.txt"))
        fetch(site.url("/a b?q=é#f"), user_agent="ExampleBot/1")
        first, second = site.hits
    assert first.headers["User-Agent"].startswith("Python-urllib/")
    assert first.headers["Accept-Encoding"] == "identity"
    assert second.path == "/a%20b?q=%C3%A9"
    assert second.headers["User-Agent"] == "ExampleBot/1"


def test_the_limits_are_those_of_a_crawl():
    assert (module.TIMEOUT_SECONDS, MAX_SIZE) == (30.0, 512 * 1024)
    assert module.LIMITS[:2] == (5, MAX_SIZE)
