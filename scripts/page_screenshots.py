"""Screenshots of a report's page, for the documentation and for review: ``python scripts/page_screenshots.py runs/demo/run/report.html``.

Writes ``page-desktop.png`` (the head map) and ``page-head.png`` (one head with its clips) to ``docs/images``. ``--all FOLDER`` writes every
part of the page at several sizes instead, and prints the loading times. Given the address of a live page (``http://127.0.0.1:8765/r/notes/``),
it writes ``page-live.png``: a clip with a text, its shares and maps. Needs playwright and Debian's chromium (or ``CHROMIUM``).
"""

import argparse
import os
import shutil
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

VIEWS = ("overview", "heads", "equaliser", "ask", "classes")
SIZES = {"desktop": (1280, 900, "light"), "phone": (390, 844, "light"), "dark": (1280, 900, "dark"), "phone-dark": (390, 844, "dark")}
LOADED = "() => { const t = performance.getEntriesByType('navigation')[0]; return [t.domContentLoadedEventEnd, t.loadEventEnd]; }"


def opened(browser: Browser, path: Path, size: str, hash_: str) -> Page:
    width, height, scheme = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.on("console", lambda m: print("console:", m.type, m.text))
    page.on("pageerror", lambda e: print("error:", e))
    page.goto(f"{path.resolve().as_uri()}#{hash_}")
    page.wait_for_timeout(1500)
    return page


def everything(browser: Browser, path: Path, folder: Path) -> None:
    for size in SIZES:
        for view in VIEWS:
            page = opened(browser, path, size, f"view={view}")
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            ready, loaded = page.evaluate(LOADED)
            print(f"{size} {view}: ready {ready:.0f} ms, loaded {loaded:.0f} ms{', SCROLLS SIDEWAYS' if wide else ''}")
            page.screenshot(path=folder / f"{view}-{size}.png", full_page=True)
            page.close()


def live(browser: Browser, address: str, clip: int, text: str, path: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1540})
    page.goto(f"{address}#view=sound&sound=row-{clip}&text={quote(text)}")
    page.wait_for_selector("#shares .map canvas", timeout=120_000)
    page.wait_for_selector("#shares .plot .main-svg")
    page.wait_for_timeout(500)
    page.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", help="report.html, or the address of a live page")
    parser.add_argument("--all", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--head", default="")
    parser.add_argument("--clip", type=int, default=0, help="row of the run that a live page shows")
    parser.add_argument("--text", default="a bass guitar; a trumpet", help="texts that a live page scores it for")
    args = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if args.all is not None:
            args.all.mkdir(parents=True, exist_ok=True)
            everything(browser, Path(args.report), args.all)
            return
        args.out.mkdir(parents=True, exist_ok=True)
        if args.report.startswith("http"):
            live(browser, args.report, args.clip, args.text, args.out / "page-live.png")
            return
        page = opened(browser, Path(args.report), "desktop", f"view=heads&head={args.head}")
        page.screenshot(path=args.out / "page-desktop.png")
        panel, classes = page.locator("#head").bounding_box(), page.locator("#head .part").nth(2).bounding_box()
        assert panel is not None
        assert classes is not None
        shown = {**panel, "height": classes["y"] + classes["height"] + 8 - panel["y"]}
        page.screenshot(path=args.out / "page-head.png", full_page=True, clip=shown)  # type: ignore[arg-type]
        for name in ("page-desktop.png", "page-head.png"):
            print(args.out / name, f"{(args.out / name).stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
