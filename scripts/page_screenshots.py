"""Screenshots of a report's page, for the documentation and for review: ``python scripts/page_screenshots.py runs/demo/run/report.html``.

Writes ``page-desktop.png`` (the head map) and ``page-head.png`` (one head with its clips) to ``docs/images``. ``--all FOLDER`` writes every
part of the page at several sizes instead, and prints the loading times. Needs playwright and Debian's chromium (or ``CHROMIUM``).
"""

import argparse
import os
import shutil
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--all", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--head", default="")
    args = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if args.all is not None:
            args.all.mkdir(parents=True, exist_ok=True)
            everything(browser, args.report, args.all)
            return
        args.out.mkdir(parents=True, exist_ok=True)
        page = opened(browser, args.report, "desktop", f"view=heads&head={args.head}")
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
