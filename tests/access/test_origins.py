"""Origins, and where a redirect may lead. Ids carry the project's checklist numbers."""

from __future__ import annotations

import pytest

from scrapy_rep.access import is_private, origin_of, redirect_target
from tests.conformance import params


@pytest.mark.parametrize(("url", "origin"), params("2.3-origins", "url", "origin"))
def test_origin(url, origin):
    assert origin_of(url) == (None if origin == "none" else origin)


@pytest.mark.parametrize("name", ["\u00fc." * 130, "b." * 130, "\u00fc" * 64 + "."])
def test_32_a_name_longer_than_any_keeps_no_codec_busy(name):
    assert origin_of(f"http://{name}com") == f"http://{name}com"


PRIVATE_HOSTS = [
    # addresses that are not global unicast
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "[::1]", "[::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[ff02::1]", "[100::1]",
    # in other words
    "127.0.0.1.", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433",
    "017700000001", "127.0.0.0x1", "08.8.8.8", "8.8.2056", "134744072", "1.2.3.4.5", "1.256",
    # with an IPv4 address in them
    "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[2002:7f00:1::]",
    "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[2001:0:7f00:1::f7f7:f7f7]",
    "[2001:0:808:808::80ff:fffe]", "[64:ff9b:1::808:808]",
    # names
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain",
    "ip6-localhost", "ip6-loopback", "broadcasthost", "intranet", "printer.local",
    "metadata.google.internal", "nas.home.arpa",
]  # fmt: skip
PUBLIC_HOSTS = [
    "example.com", "1.example", "127.0.0.1.example", "localhost.example", "xlocalhost.com",
    "0x7f.example", "a_b.example", "example.com.", "8.8.8.8", "[2606:4700::1111]",
    "[::ffff:8.8.8.8]", "[::8.8.8.8]", "[::ffff:0:8.8.8.8]", "[64:ff9b::808:808]",
    "[2002:808:808::]", "[2001:0:808:808::f7f7:f7f7]",
]  # fmt: skip


@pytest.mark.parametrize("host", [*PRIVATE_HOSTS, "fe80::1%eth0", "::1"])
def test_43_private_hosts(host):
    assert is_private(host)


@pytest.mark.parametrize("host", PUBLIC_HOSTS)
def test_43_public_hosts(host):
    assert not is_private(host)
    assert origin_of(redirect_target("http://a.com/robots.txt", f"https://{host}:80/"))


@pytest.mark.parametrize(
    ("location", "target"), params("2.3-origins", "location", "target")
)
def test_39_redirects_are_followed(location, target):
    assert redirect_target("http://a.com/robots.txt", location) == target


@pytest.mark.parametrize(
    "location",
    [
        *(f"http://{host}/" for host in PRIVATE_HOSTS),
        "file:///etc/passwd", "ftp://b.com/", "data:text/plain,x", "javascript:x", "https://",
        "http://169.254.169.254/latest", "http://localhost:8000/", "//127.0.0.1/",
        # what the resolver gets is not what stands there: NFKC, IDNA, escapes, white space
        "http://\u00b927.0.0.1/", "http://127.0.0.\u00b9/", "http://\u00b2130706433/",
        "http://l\u00bacalh\u00bast/", "http://127.0.\u00ad0.1/", "http://\u24db\u24dealhost/",
        "http://127\u30020\uff0e0\uff611/", "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u00c2\u00b927.0.0.1/", "http://%31%32%37.0.0.1/", "http://127.0.0.1%2E/",
        "http://%C2%B927.0.0.1/", "http://127.0.0.1\t/", "http://\t127.0.0.1/",
        # and where an authority ends is read in two ways
        "http://127.0.0.1\\@b.com/", "http://b.com\\@127.0.0.1/", "http://u:p@10.0.0.1/",
        "http://u@b.com/", "http://@b.com/", "http://b.com%2F@c.com/", "http://b.com%40c.com/",
        # no ports
        "http://b.com:99999/", "http://b.com:65536/", "http://b.com:ab/", "http://b.com:0/",
        "http://b.com:-1/", "http://b.com:80:80/", "http://b.com:\u0663/",
        "http://b.com:\u00b2/", "http://b.com:+8/", f"http://b.com:{'9' * 5000}/",
        # no hosts
        "http://[::1", "http://[::1]x/", "http://[x]/", "http://[]/", "http://[1.2.3.4]/",
        "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://::1/", "http://b..com/",
        "http://.b.com/", "http://b.com b/", "http://b.com%00/", "http://b!.com/", "http://*/",
        "http://%FF.com/", f"http://{'b' * 64}.com/", f"http://{'b.' * 127}com/",
        "http://" + "\u00fc" * 9000 + ".com/", "http://\ud800.com/", "/\ud800",
    ],
    ids=lambda location: ascii(location)[:40],
)  # fmt: skip
def test_43_redirects_that_are_not_followed(location):
    with pytest.raises(ValueError, match=r"^redirect"):
        redirect_target("http://a.com/robots.txt", location)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:8000/robots.txt", "http://[::1]/"]
)
def test_43_a_private_host_may_redirect_to_another(target):
    for base in ("127.0.0.1", "intranet"):
        assert redirect_target(f"http://{base}/robots.txt", target) == target
