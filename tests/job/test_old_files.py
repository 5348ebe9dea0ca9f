"""What queuelib's files hold, and what can be read of them after a kill."""

from __future__ import annotations

import marshal
import pickle

import pytest
from queuelib import FifoDiskQueue, LifoDiskQueue

from scrapy_rep.job.old_files import read_queue, read_seen

BODIES = [pickle.dumps({"url": f"http://a.example/{n}"}, 4) for n in range(50)]


def filled(kind, path, popped=0, close=True, bodies=BODIES):
    queue = kind(str(path))
    for body in bodies:
        queue.push(body)
    for _ in range(popped):
        queue.pop()
    if close:
        queue.close()
    return queue


@pytest.mark.parametrize("popped", [0, 7])
@pytest.mark.parametrize("kind", [LifoDiskQueue, FifoDiskQueue])
def test_closed(kind, popped, tmp_path):
    filled(kind, tmp_path / "0", popped)
    left = BODIES[: len(BODIES) - popped] if kind is LifoDiskQueue else BODIES[popped:]
    assert read_queue(tmp_path / "0") == (left, True)


@pytest.mark.parametrize("kind", [LifoDiskQueue, FifoDiskQueue])
def test_not_closed(kind, tmp_path):
    """All that was written is read, and that its count is wrong is told."""
    queue = filled(kind, tmp_path / "0", close=False)
    if kind is LifoDiskQueue:
        queue.f.flush()
    assert read_queue(tmp_path / "0") == (BODIES, False)
    queue.close()


@pytest.mark.parametrize("kept", [0, 3, 5, 100, 1000])
def test_torn(kept, tmp_path):
    filled(LifoDiskQueue, tmp_path / "0")
    data = (tmp_path / "0").read_bytes()[:kept]
    (tmp_path / "0").write_bytes(data)
    bodies, whole = read_queue(tmp_path / "0")
    assert bodies == BODIES[: len(bodies)]
    assert len(bodies) >= kept // (len(BODIES[-1]) + 4)
    assert whole is (not kept)


def test_what_marshal_wrote(tmp_path):
    bodies = [marshal.dumps({"url": "http://a.example/"})]
    filled(FifoDiskQueue, tmp_path / "0", bodies=bodies)
    (body,) = read_queue(tmp_path / "0").bodies
    assert pickle.loads(body) == {"url": "http://a.example/"}


@pytest.mark.parametrize(
    "data",
    [
        b"".join(b"\0\x14" + bytes([n]) * 20 for n in range(3)) + b"\0\x14torn",
        b"".join(f"{n:02x}".encode() * 20 + b"\n" for n in range(3)) + b"00",
    ],
    ids=["Scrapy 2.19", "before"],
)
def test_what_was_seen(data, tmp_path):
    path = tmp_path / "requests.seen"
    path.write_bytes(data)
    assert list(read_seen(path)) == [bytes([n]) * 20 for n in range(3)]
