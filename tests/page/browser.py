# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, controlled over a pipe with the DevTools protocol: no driver, no port
and no library except Python's own, so that only the protocol must match Debian's version of the
browser."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

# A browser on a busy machine is slow.
PATIENCE = 120

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
]


class Browser:
    def __init__(self) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise SystemExit("chromium is not there: scripts/install_packages.sh test installs it")
        self.profile = tempfile.mkdtemp(prefix="forestall-browser-")
        # It reads commands from descriptor 3 and writes results to 4.
        command_read, self.write = os.pipe()
        self.read, answer_write = os.pipe()

        def connect() -> None:
            # Copies first: either may be 3 or 4 already.
            copies = [os.dup(command_read), os.dup(answer_write)]
            for number, copy in zip((3, 4), copies):
                os.dup2(copy, number)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            close_fds=False, preexec_fn=connect, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.number = 0
        self.buffer = b""
        self.events: list[dict] = []

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline: float) -> dict:
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)


class Page:
    """One tab. Keeps its errors and its network requests."""

    def __init__(self, browser: Browser, width: int = 1360, height: int = 900, dark: bool = False,
                 phone: bool = False, printed: bool = False) -> None:
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"]
        self.target = target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=390 if phone else width,
                  height=844 if phone else height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])

    def call(self, method: str, **parameters) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def evaluate(self, expression: str):
        reported = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                         returnByValue=True)
        if "exceptionDetails" in reported:
            raise AssertionError(f"{expression}: {reported['exceptionDetails']}")
        return reported["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until it is true; evaluates it with each frame that the page draws."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            frame = f"requestAnimationFrame(() => done(!!({condition})))"
            if self.evaluate(f"new Promise((done) => {frame})"):
                return
        raise AssertionError(f"never true: {condition}")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.documentElement.dataset.drawn === 'yes'")

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        def mouse(kind: str, at: tuple[float, float], buttons: int) -> None:
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], buttons=buttons,
                      button="none" if kind == "mouseMoved" else "left", clickCount=1)
        mouse("mouseMoved", begin, 0)
        mouse("mousePressed", begin, 1)
        for step in range(1, 6):
            share = step / 5
            mouse("mouseMoved", (begin[0] + (end[0] - begin[0]) * share, end[1]), 1)
        mouse("mouseReleased", end, 0)

    def double_click(self, at: tuple[float, float]) -> None:
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left",
                          clickCount=count)

    def move(self, at: tuple[float, float]) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])

    def screenshot(self, path: str, whole: bool = True) -> None:
        frame = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.evaluate(f"new Promise((done) => {frame})")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def own_events(self, *methods: str) -> list[dict]:
        return [each for each in self.browser.events
                if each.get("sessionId") == self.session and each["method"] in methods]

    def complaints(self) -> list[str]:
        """Errors of scripts, of the content security policy, of the network; dialogs."""
        reported = self.own_events("Runtime.exceptionThrown", "Runtime.consoleAPICalled",
                               "Log.entryAdded", "Page.javascriptDialogOpening")
        return [json.dumps(each["params"])[:600] for each in reported]

    def requests(self) -> list[str]:
        return [each["params"]["request"]["url"]
                for each in self.own_events("Network.requestWillBeSent")]
