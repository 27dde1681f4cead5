"""The page in a real browser: whole, readable, silent about what it must not do, in light and dark, narrow and wide."""

import contextlib

import pytest
import report_world as world

from asr_parallel.config import ReportConfig
from asr_parallel.results.report.run import run

axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")
WIDTHS, SCHEMES = (360, 1600), ("light", "dark")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    exp = world.make(tmp_path_factory.mktemp("seen"))
    run(ReportConfig(exp=exp, out=exp.parent.parent / "page.html"))
    return exp.parent.parent / "page.html"


@pytest.fixture
def seen(browser, page_file):
    """A function: shows the page (or another) in a window; what it complains of and asks for is in its lists."""
    with contextlib.ExitStack() as stack:

        def show(width=1600, scheme="light", path=page_file):
            context = stack.enter_context(
                contextlib.closing(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
            )
            page = context.new_page()
            page.complaints, page.asked = [], []
            page.on("console", lambda said: page.complaints.append(said.text))
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on("request", lambda request: page.asked.append(request.url))
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
            return page

        yield show


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_fetched_or_complained_of(seen, page_file, width, scheme):
    page = seen(width, scheme)
    assert page.evaluate(OVERFLOW) == 0
    assert page.complaints == []
    assert {url for url in page.asked if not url.startswith("data:")} == {page_file.as_uri()}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_accessible(seen, width, scheme):
    """By the rules of axe-core: contrast of texts of 4.5, heads of tables, names of what can be used, ..."""
    page = seen(width, scheme)
    found = axe_playwright.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_both_schemes_are_there(seen):
    light, dark = (
        seen(scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor") for scheme in SCHEMES
    )
    assert light == "rgb(255, 255, 255)"
    assert max(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 50


def test_every_sound_can_be_played(seen):
    page = seen()
    page.wait_for_function(
        "[...document.querySelectorAll('audio')].every(sound => sound.readyState > 0)", timeout=10_000
    )
    seconds = page.evaluate("[...document.querySelectorAll('audio')].map(sound => sound.duration)")
    assert seconds == [
        pytest.approx(world.seconds_of(utt), abs=0.1) for utt in 2 * ("bob<i>'-1", "ann-3&amp;", "ann-1")
    ]


def test_hostile_names_and_words_are_text(seen):
    page = seen()
    assert page.evaluate("window.hacked") is None
    assert page.title() == f"{world.NAME}: report"
    words = page.evaluate("[...document.querySelectorAll('.pairs span')].map(word => word.textContent)")
    assert {world.SCRIPT, world.IMAGE, world.HEBREW, world.TURNED, "&lt;", "{{7*7}}"} <= set(words)


def test_words_of_a_language_that_is_written_to_the_left_go_there(seen):
    """The first word of the line is to the right of the second, and the word that turns its line turns no other."""
    page = seen()
    places = page.evaluate(
        f"[...document.querySelectorAll('.pairs li')].filter(item => item.textContent.includes('{world.HEBREW}'))"
        ".map(item => [item, item.nextElementSibling].map(each => each.getBoundingClientRect().x))"
    )
    assert places
    assert all(first > second for first, second in places)
    assert page.evaluate("getComputedStyle(document.body).direction") == "ltr"


def test_the_keyboard_reaches_every_part(seen):
    page = seen(width=360)
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.className"))
    assert {"A ", "SUMMARY ", "DIV scroll", "AUDIO "} <= reached


def test_paper_has_what_is_folded_on_the_screen(seen):
    page = seen()
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = false)")
    tall = "[...document.querySelectorAll('details article')].every(part => part.getBoundingClientRect().height > 50)"
    page.emulate_media(media="print")
    assert page.evaluate(tall)
    assert not page.locator("nav").is_visible()


def test_the_table_of_a_folder_leads_to_the_pages(seen, page_file):
    exp = page_file.parent / "exp"
    run(ReportConfig(exp=exp))
    page = seen(width=360, path=exp / "report.html")
    assert page.evaluate(OVERFLOW) == 0
    assert axe_playwright.Axe().run(page).violations_count == 0
    page.get_by_role("link").click()
    assert page.title() == f"{world.NAME}: report"
    assert page.complaints == []
