#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report and the status page in a real browser: they draw, they react to input, they report no
errors, they make no network requests, and no name in a recording becomes markup.

browser_test.py report|live --forestall PATH --make-incident PATH [--shots DIR]

--shots stores screenshots as PNG for people."""

import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser, Page  # noqa: E402

OPTIONS: argparse.Namespace


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=300)


class BrowserCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = Browser()
        cls.directory = tempfile.TemporaryDirectory(prefix="forestall-page-")
        cls.shots = OPTIONS.shots
        if cls.shots:
            os.makedirs(cls.shots, exist_ok=True)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.directory.cleanup()

    def shot(self, page: Page, name: str, whole: bool = True) -> None:
        if self.shots:
            page.screenshot(os.path.join(self.shots, name + ".png"), whole)

    def assert_quiet(self, page: Page) -> None:
        self.assertEqual(page.complaints(), [])

    def assert_fits(self, page: Page) -> None:
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide, room, "something sticks out on the right")


class ReportTest(BrowserCase):
    def report(self, name: str, *incident: str, cut: bool = False) -> str:
        recording = os.path.join(self.directory.name, name + ".fst")
        page = os.path.join(self.directory.name, name + ".html")
        run(OPTIONS.make_incident, recording, *incident)
        if cut:
            size = os.path.getsize(recording)
            os.truncate(recording, size * 9 // 10)
        run(OPTIONS.forestall, "report", recording, "-o", page, "--force")
        return "file://" + page

    def opened(self, url: str, **how) -> Page:
        page = Page(self.browser, **how)
        self.addCleanup(page.close)
        page.open(url)
        return page

    def middle(self, page: Page, chart: str) -> tuple[float, float, float, float]:
        box = page.evaluate(
            f"(() => {{ const b = document.querySelector('#chart-{chart} .u-over')"
            ".getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        return tuple(box)

    def test_draws_without_network_requests(self) -> None:
        url = self.report("three", "3")
        page = self.opened(url)
        self.assertEqual(page.evaluate("document.querySelectorAll('#charts canvas').length"), 5)
        self.assertEqual(page.requests(), [url])
        self.assertEqual(page.evaluate("scrollY"), 0, "it opens at its beginning")
        self.assertIn("worker-3.example.net", page.evaluate("document.title"))
        self.assertEqual(page.evaluate("document.querySelectorAll('#moments li').length"), 2)
        self.shot(page, "report-3-light")
        self.assert_quiet(page)

    def test_no_kill_crosses_the_label_of_a_threshold(self) -> None:
        page = self.opened(self.report("labels", "3"))
        place = "Lines.freeRight({}, 0, 1000, 100, 4)".format
        self.assertEqual(page.evaluate(place("[10, 500, 890]")), 1000)
        self.assertEqual(page.evaluate(place("[920, 990]")), 916)
        self.assertEqual(page.evaluate(place("[...Array(20).keys()].map((i) => i * 50)")), 1000)

    def test_a_chart_can_be_read_on_a_phone(self) -> None:
        page = Page(self.browser, phone=True)
        self.addCleanup(page.close)
        page.call("Page.addScriptToEvaluateOnNewDocument", source="""
          window.drawn = [];
          const fill = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (...all) {
            drawn.push([all[0], parseFloat(/([0-9.]+)px/.exec(this.font)[1]) / devicePixelRatio]);
            return fill.apply(this, all);
          };""")
        page.open(self.report("phone", "3"))
        drawn = page.evaluate("drawn")
        self.assertGreaterEqual(min(size for _, size in drawn), 10, drawn)
        times = {text for text, _ in drawn if ":" in text}
        self.assertGreaterEqual(len(times), 3, drawn)
        self.assert_fits(page)
        self.shot(page, "report-3-phone")
        self.assert_quiet(page)

    def test_a_decision_shows_its_ranking(self) -> None:
        page = self.opened(self.report("ranking", "12"))
        page.evaluate("[...document.querySelectorAll('#moments button')]"
                      ".find((b) => b.textContent.includes('convert')).click()")
        self.assertIn("OOM killer", page.evaluate("document.querySelector('#detail').textContent"))
        page.evaluate("[...document.querySelectorAll('#moments button')]"
                      ".find((b) => b.textContent.includes('shop/catalog')).click()")
        detail = page.evaluate("document.querySelector('#detail').textContent")
        for word in ("Ranking", "usage − request", "victim", "protected", "SIGKILL", "512Mi"):
            self.assertIn(word, detail)
        rows = page.evaluate("document.querySelectorAll('#detail tr.victim').length")
        self.assertEqual(rows, 1)
        # The same from the lane above the charts.
        page.evaluate("document.querySelector('#lane button').click()")
        self.assertEqual(
            page.evaluate("document.querySelectorAll('#lane [aria-current=true]').length"), 1)
        self.assert_quiet(page)

    def test_zoom_hover_and_legend(self) -> None:
        page = self.opened(self.report("zoom", "12"))
        whole = page.evaluate("document.querySelector('#span').textContent")
        left, top, width, height = self.middle(page, "available")
        row = top + height / 2
        page.drag((left + width * 0.5, row), (left + width * 0.8, row))
        page.wait_for(f"document.querySelector('#span').textContent !== {whole!r}")
        page.move((left + width * 0.4, row))
        page.wait_for("!document.querySelector('#chart-available .tip').hidden")
        tip = page.evaluate("document.querySelector('#chart-available .tip').textContent")
        self.assertRegex(tip, r"GiB|MiB")
        self.shot(page, "report-12-zoomed", whole=False)
        page.double_click((left + width * 0.5, row))
        page.wait_for(f"document.querySelector('#span').textContent === {whole!r}")
        page.evaluate("document.querySelector('#closer').click()")
        page.wait_for(f"document.querySelector('#span').textContent !== {whole!r}")
        page.evaluate("document.querySelector('#whole').click()")
        drawn = "document.querySelector('#chart-workloads canvas').toDataURL()"
        first = "document.querySelector('#chart-workloads .legend button')"
        before = page.evaluate(drawn)
        page.evaluate(f"{first}.click()")
        pressed = f"{first}.getAttribute('aria-pressed')"
        self.assertEqual(page.evaluate(pressed), "false")
        page.wait_for(f"{drawn} !== {before!r}")
        page.evaluate(f"{first}.click()")
        self.assertEqual(page.evaluate(pressed), "true")
        page.evaluate("document.querySelector('#near').click()")
        self.shot(page, "report-12-near", whole=False)
        self.assert_quiet(page)

    def test_no_name_becomes_markup(self) -> None:
        page = self.opened(self.report("evil", "6", "evil"))
        self.assertEqual(page.evaluate("document.querySelectorAll('img, b b').length"), 0)
        self.assertEqual(page.evaluate("document.scripts.length"), 12)
        self.assertIn("<script>alert(1)</script>", page.evaluate("document.body.innerText"))
        self.shot(page, "report-evil")
        self.assert_quiet(page)

    def test_a_truncated_recording_is_marked(self) -> None:
        page = self.opened(self.report("cut", "3", cut=True))
        self.assertFalse(page.evaluate("document.querySelector('#remarks').hidden"))
        self.assertIn("truncated", page.evaluate("document.querySelector('#remarks').textContent"))
        self.shot(page, "report-cut")
        self.assert_quiet(page)

    def test_dark_phone_and_print(self) -> None:
        url = self.report("many", "300")
        for name, how in {
                "report-300-light": {}, "report-300-dark": {"dark": True},
                "report-300-phone": {"phone": True}, "report-300-phone-dark": {"phone": True,
                                                                               "dark": True},
                "report-300-print": {"printed": True}}.items():
            with self.subTest(name):
                page = self.opened(url, **how)
                self.assert_fits(page)
                legend = "document.querySelector('#chart-workloads').textContent"
                self.assertIn("288 others", page.evaluate(legend))
                details = page.evaluate(
                    "getComputedStyle(document.querySelector('#all-details')).display")
                self.assertEqual(details == "none", "printed" not in how)
                self.shot(page, name)
                self.assert_quiet(page)

    # The page as an agent serves it, with events of the test.
    def following(self, name: str) -> tuple[Page, dict]:
        file = self.report(name, "3").removeprefix("file://")
        recording = file.replace(".html", ".fst")
        run(OPTIONS.forestall, "report", recording, "-o", file + ".json", "--force")
        html = pathlib.Path(file).read_text(encoding="utf-8")
        before, rest = html.split('<script type="application/json" id="picture">')
        pathlib.Path(file).write_text(before + rest.split("</script>", maxsplit=1)[1],
                                      encoding="utf-8")
        page = Page(self.browser)
        self.addCleanup(page.close)
        page.call("Page.addScriptToEvaluateOnNewDocument", source="""
          window.EventSource = class {
            addEventListener(kind, deliver) {
              if (kind !== 'picture') return;
              window.deliver = (data) => deliver({ data: JSON.stringify(data) });
            }
          };""")
        page.call("Page.navigate", url="file://" + file)
        page.wait_for("window.deliver")
        return page, json.loads(pathlib.Path(file + ".json").read_text(encoding="utf-8"))

    def test_updates_keep_the_view_stable(self) -> None:
        page, first = self.following("followed")
        nothing = {"atUs": [], "lines": [], "rowsRead": 0}
        for subject, limit in (("/a", "1Ki"), ("/b", "2Ki")):
            gauge = json.loads(json.dumps(first["gauges"][0])) | {"subject": subject}
            gauge["thresholds"][0]["quantity"] = limit
            first["gauges"].append(gauge)
        page.evaluate(f"deliver({json.dumps(first)})")
        page.evaluate("""(() => {
          const select = document.querySelector('#gauge');
          select.selectedIndex = 1;
          select.dispatchEvent(new Event('change'));
          document.querySelector('#detail').firstElementChild.dataset.kept = 'yes';
          document.querySelector('#moments button').dataset.kept = 'yes';
        })()""")
        more = first | {"continued": True, "moments": []}
        more |= {each: nothing for each in ("pressure", "reclaim", "workloads")}
        # Now /b is nearer to a threshold than /a.
        node, a, b = first["gauges"]
        more["gauges"] = [each | {"table": nothing} for each in (node, b, a)]
        page.evaluate(f"deliver({json.dumps(more)})")
        chosen = "document.querySelector('#gauge').selectedOptions[0].textContent"
        self.assertEqual(page.evaluate(chosen), "memory.available of /a")
        self.assertIn("/a at", page.evaluate("document.querySelector('#tiles').textContent"))
        kept = "document.querySelectorAll('[data-kept]').length"
        self.assertEqual(page.evaluate(kept), 2, "what is read was made anew")
        more["moments"] = first["moments"]
        page.evaluate(f"deliver({json.dumps(more)})")
        self.assertEqual(page.evaluate(kept), 0, "what has changed was not")
        self.assert_quiet(page)

    def test_the_headline_follows_what_is_nearest_to_its_threshold(self) -> None:
        page, first = self.following("headline")
        nothing = {"atUs": [], "lines": [], "rowsRead": 0}
        gauge = json.loads(json.dumps(first["gauges"][0])) | {"subject": "/a"}
        first["gauges"].append(gauge)
        page.evaluate(f"deliver({json.dumps(first)})")
        headline = "document.querySelector('#tiles .tile').textContent"
        self.assertIn("memory.available at", page.evaluate(headline))
        more = first | {"continued": True}
        more |= {each: nothing for each in ("pressure", "reclaim", "workloads")}
        node, other = first["gauges"]
        more["gauges"] = [each | {"table": nothing} for each in (other, node)]
        page.evaluate(f"deliver({json.dumps(more)})")
        self.assertIn("/a at", page.evaluate(headline))
        self.assert_quiet(page)

    # A status page left open drops the oldest rows, and shows that by a later start: an unknown
    # time must differ from an idle one.
    def test_live_rows_that_are_gone(self) -> None:
        page = self.opened(self.report("calm", "3", "calm"))
        joined = page.evaluate("""(() => {
          const table = (from, to) => ({
            atUs: Array.from({ length: to - from }, (_, i) => from + i),
            lines: [], rowsRead: to });
          const picture = (from, to) => ({
            fromUs: 0, toUs: to, gauges: [], spans: [], moments: [], workloadNames: [],
            workloads: table(from, to), pressure: table(from, to), reclaim: table(from, to) });
          const some = Live.joined(picture(0, 10), picture(10, 20));
          const many = Live.joined(picture(0, 4000), picture(4000, 4100));
          return JSON.stringify([some.fromUs, many.fromUs, many.pressure.atUs.length]);
        })()""")
        self.assertEqual(joined, "[0,100,4000]")

    def test_before_anything_happens(self) -> None:
        page = self.opened(self.report("calm", "3", "calm"))
        listed = page.evaluate("document.querySelector('#moments').textContent")
        self.assertIn("No decision", listed)
        self.shot(page, "report-calm")
        dark = self.opened(self.report("dry", "12", "dry-run"), dark=True)
        self.assertIn("Would have", dark.evaluate("document.querySelector('#tiles').textContent"))
        self.shot(dark, "report-dry-run-dark")
        self.assert_quiet(page)
        self.assert_quiet(dark)




class LiveTest(BrowserCase):
    def setUp(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        config = os.path.join(self.directory.name, "config.yaml")
        pathlib.Path(config).write_text(f'metricsAddress: "127.0.0.1:{self.port}"\n'
                                        "dryRun: true\npods: {enabled: false}\n")
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify = os.path.join(self.directory.name, "notify")
        ready.bind(notify)
        ready.settimeout(120)
        self.agent = subprocess.Popen(
            [OPTIONS.forestall, "agent", "--config", config, "--run-dir", self.directory.name],
            env={**os.environ, "NOTIFY_SOCKET": notify}, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_agent)
        self.assertIn(b"READY=1", ready.recv(4096))
        ready.close()
        os.unlink(notify)

    def end_agent(self) -> None:
        if self.agent.poll() is None:
            self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(60)

    def get(self, path: str, method: str = "GET", **headers) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode() if path != "/live" else ""
        connection.close()
        return answer

    def test_live(self) -> None:
        origin = f"http://127.0.0.1:{self.port}/"
        page = Page(self.browser)
        self.addCleanup(page.close)
        page.open(origin)
        page.wait_for("document.querySelector('#live').textContent === 'live'")
        # Each second adds to it.
        span = page.evaluate("document.querySelector('#span').textContent")
        page.wait_for(f"document.querySelector('#span').textContent !== {span!r}")
        page.wait_for("document.querySelectorAll('#chart-pressure canvas').length === 1")
        self.assertTrue(all(url.startswith(origin) for url in page.requests()), page.requests())
        self.assert_quiet(page)
        self.shot(page, "live-light")
        dark = Page(self.browser, dark=True, phone=True)
        self.addCleanup(dark.close)
        dark.open(origin)
        dark.wait_for("document.querySelector('#live').textContent === 'live'")
        self.assert_fits(dark)
        self.shot(dark, "live-phone-dark")
        # Only the page in front draws frames, which trigger the checks.
        page.call("Page.bringToFront")
        self.end_agent()
        page.wait_for("document.querySelector('#live').className.includes('off')")

    def test_served_files_and_allowed_hosts(self) -> None:
        page = self.get("/")
        self.assertEqual(page.status, 200)
        policy = page.getheader("Content-Security-Policy")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertEqual(page.getheader("X-Content-Type-Options"), "nosniff")
        picture = self.get("/picture")
        self.assertEqual(picture.getheader("Content-Type"), "application/json")
        self.assertIn('"gauges"', picture.text)
        self.assertEqual(self.get("/", method="POST").status, 405)
        self.assertEqual(self.get("/", method="HEAD").text, "")
        self.assertEqual(self.get("/nowhere").status, 404)
        # A page of another site whose name resolves to this host gets no data.
        self.assertEqual(self.get("/picture", Host="evil.example").status, 403)
        self.assertEqual(self.get("/picture", Host=f"localhost:{self.port}").status, 200)
        for path in ("/metrics", "/healthz", "/readyz"):
            self.assertEqual(self.get(path).status, 200, path)


def main() -> None:
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["report", "live"])
    parser.add_argument("--forestall", required=True)
    parser.add_argument("--make-incident", required=True)
    parser.add_argument("--shots")
    parser.add_argument("-k", help="only tests whose name contains this", default="")
    OPTIONS = parser.parse_args()
    cases = {"report": ReportTest, "live": LiveTest}[OPTIONS.what]
    loader = unittest.TestLoader()
    names = [name for name in loader.getTestCaseNames(cases) if OPTIONS.k in name]
    done = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(cases, names)))
    sys.exit(0 if done.wasSuccessful() and names else 1)


if __name__ == "__main__":
    main()
