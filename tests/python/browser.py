"""A headless Chromium, controlled through its debugging pipe: opens a page, runs scripts in it, takes screenshots."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """Return the executable: `SOT_BROWSER`, or the first of the usual names that is found; `None` if there is none."""
    return os.environ.get("SOT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Navigated(Exception):
    """The page was replaced by another one while a script ran."""


class Browser:
    """One page of a browser. Errors that scripts log or throw are in `errors`."""

    def __init__(self, executable, width=1360, height=900, dark=False):
        self.profile = tempfile.TemporaryDirectory()
        self.errors = []
        self.numbers = itertools.count(1)
        self.buffer = b""
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def hand_over_pipes():
            # The browser reads from descriptor 3 and writes to 4. The pipes may have these numbers, so they are moved.
            moved = os.dup2(commands, 63), os.dup2(answers, 64)
            os.dup2(moved[0], 3)
            os.dup2(moved[1], 4)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]
        # The browser makes no requests of its own.
        options += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
        self.process = subprocess.Popen(
            [executable, *options, f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "about:blank"],
            preexec_fn=hand_over_pipes,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.session = None
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Runtime.enable")
        self.ask("Network.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("Browser.close")
        except (OSError, EOFError):
            pass
        self.process.wait(30)
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def open(self, path):
        """Open a file, and wait until its scripts have run."""
        self.errors.clear()
        self.ask("Page.navigate", url=f"file://{os.path.abspath(path)}")
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, script):
        """Return the value of an expression in the page."""
        try:
            answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        except Navigated:
            answer = {"result": {}}
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition, seconds=30):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)

    def go(self, view):
        """Show a view of a report."""
        self.run(f"location.hash = {json.dumps(view)}")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, selector, number=0):
        """Click an element, as a mouse does."""
        self.run(
            f"(() => {{ const found = document.querySelectorAll({json.dumps(selector)})[{number}];"
            " found.scrollIntoView({block: 'center'});"
            " found.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true})); })()"
            if "svg" in selector or ".node" in selector
            else f"document.querySelectorAll({json.dumps(selector)})[{number}].click()"
        )
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key):
        """Press a key on the element that has the focus."""
        for kind in ("keyDown", "keyUp"):
            text = {"Enter": "\r", " ": " "}.get(key, "")
            code = {"Enter": 13, " ": 32, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40}.get(key, 0)
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "", windowsVirtualKeyCode=code)

    def text(self, selector="main"):
        """Return the text that is shown in an element."""
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def number(self, selector):
        """Return the number of elements that match."""
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def picture(self, path, whole=False):
        """Take a picture of the window, or of the whole page."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def ask(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            if not method.startswith(("Browser.", "Target.")):
                message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == number:
                if "navigated" in answer.get("error", {}).get("message", ""):
                    raise Navigated
                assert "error" not in answer, answer
                return answer["result"]
            self.note(answer)

    def note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:1000])
        elif event.get("method") == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "about:", "data:")):
            self.errors.append(f"asked for {parameters['request']['url']}")

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise EOFError("the browser has ended")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)
