"""A real browser for a test: Chromium without a window, spoken to over a pipe.

The DevTools protocol over ``--remote-debugging-pipe`` is JSON with a NUL after each
message, so it takes no library and no port.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from contextlib import suppress
from select import select
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT = 60.0
# Chromium wants its pipe at descriptors 3 and 4.
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
OPTIONS = [
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
    "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions",
]  # fmt: skip


def binary() -> str:
    """Return the path of a Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, f"no browser: none of {', '.join(NAMES)} is on the PATH"
    return found


class Browser:
    """One browser, with a profile of its own in *folder*."""

    def __init__(self, folder) -> None:
        to_it, self._write = os.pipe()
        self._read, from_it = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", START, str(to_it), str(from_it), binary(),
                *OPTIONS, f"--user-data-dir={folder}",
            ],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_it)
        os.close(from_it)
        self._buffer = b""
        self._last = 0
        self._events: list[dict[str, Any]] = []

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, AssertionError):
            self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Return the result of a command of the protocol; fail where it has none."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._message(f"an answer to {method}")
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._events.append(answer)

    def events(self, session: str) -> list[dict[str, Any]]:
        """Return the events of a page so far."""
        return [each for each in self._events if each.get("sessionId") == session]

    def wait(self, session: str, method: str) -> None:
        """Wait for an event of a page, unless it has come."""
        while not any(each.get("method") == method for each in self.events(session)):
            self._events.append(self._message(method))

    def _message(self, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            left = max(0, deadline - time.monotonic())
            ready, _, _ = select([self._read], [], [], left)
            assert ready, f"the browser does not send {what}"
            data = os.read(self._read, 1 << 20)
            assert data, f"the browser ended before {what}"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


class Page:
    """A page in a tab of its own, which counts what goes wrong in it."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        phone: bool = False,
        scheme: str = "light",
    ) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call(
            "Target.attachToTarget", targetId=target, flatten=True
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.media("screen", scheme)
        self.call("Page.navigate", url=url)
        browser.wait(self._session, "Page.loadEventFired")

    def call(self, method: str, **params: Any) -> Any:
        return self._browser.call(method, self._session, **params)

    def media(self, medium: str, scheme: str) -> None:
        """Show it as on a medium, to a reader who prefers a colour scheme."""
        self.call(
            "Emulation.setEmulatedMedia",
            media=medium,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def eval(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def of(self, css: str, its: str) -> Any:
        """Return what the first element that *css* finds has as *its*, such as "hidden"."""
        return self.eval(f"document.querySelector({css!r}).{its}")

    def style(self, css: str, name: str) -> str:
        """Return how that element is shown, such as its "color"."""
        element = f"document.querySelector({css!r})"
        found: str = self.eval(f"getComputedStyle({element}).{name}")
        return found

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key, by its DOM name."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "End": 35}
        what = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        if not text and key == "Enter":
            text = "\r"
        if text or key == " ":
            what["text"] = text or key
        self.call("Input.dispatchKeyEvent", type="keyDown", **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def pdf(self) -> bytes:
        return b64decode(self.call("Page.printToPDF")["data"])

    @property
    def problems(self) -> list[str]:
        """What the console shows in red, and what scripts raised."""
        return list(self._problems())

    def _problems(self):
        for event in self._browser.events(self._session):
            params = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    yield str(params["exceptionDetails"])
                case "Runtime.consoleAPICalled" if params["type"] != "log":
                    yield str(params["args"])
                case "Log.entryAdded" if params["entry"]["level"] != "info":
                    yield str(params["entry"]["text"])

    @property
    def requested(self) -> list[str]:
        """The URLs that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events(self._session)
            if event["method"] == "Network.requestWillBeSent"
        ]
