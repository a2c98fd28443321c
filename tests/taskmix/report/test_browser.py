"""The page as a person has it: in a browser, on a desk and on a phone, light and dark, by keyboard."""

import itertools

import pytest

from taskmix.report import compare, page

WIDTHS = {"phone": 390, "desk": 1280}

HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(each => +each.tagName[1])"
# Grey of the page's ground, 0 to 255.
GROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
# WCAG's contrast of the body's text on its ground.
CONTRAST = """(() => {
  const part = value => (value /= 255) <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const light = css => css.match(/\\d+/g).slice(0, 3).map(Number).map(part)
    .reduce((sum, value, place) => sum + value * [.2126, .7152, .0722][place], 0);
  const ground = light(getComputedStyle(document.body).backgroundColor) + .05;
  return Math.min(...['body', 'p.lead', '.note', 'th', 'h2', '.good', '.bad'].map(each => {
    const found = document.querySelector(each);
    if (!found) return 99;
    const ink = light(getComputedStyle(found).color) + .05;
    return Math.max(ink, ground) / Math.min(ink, ground);
  }));
})()"""


@pytest.fixture
def pages(pushed, refused, tmp_path):
  """name -> file."""
  rendered = {
    "pushed": page.render(pushed),
    "refused": page.render(refused),
    "compared": compare.render(pushed, refused),
  }
  for name, html in rendered.items():
    (tmp_path / f"{name}.html").write_text(html)
  return {name: tmp_path / f"{name}.html" for name in rendered}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", ["pushed", "refused", "compared"])
def test_a_page_fits_asks_for_nothing_and_is_readable(name, width, dark, pages, browser):
  browser.open(pages[name], width=width, dark=dark)
  assert [url for url in browser.requests if not url.startswith(("data:", pages[name].as_uri()))] == []
  browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
  assert browser.evaluate("document.documentElement.scrollWidth") <= width
  assert browser.evaluate("[...document.images].every(each => each.naturalWidth > 0)")
  grounds = browser.evaluate(GROUND)
  assert (max(grounds) < 60) if dark else (min(grounds) > 200)
  assert browser.evaluate(CONTRAST) >= 4.5
  assert browser.console == []


@pytest.mark.parametrize("name", ["pushed", "refused", "compared"])
def test_headings_go_down_a_level_at_a_time_and_every_picture_has_words(name, pages, browser):
  browser.open(pages[name], width=1280)
  levels = browser.evaluate(HEADINGS)
  assert levels[0] == 1 and levels.count(1) == 1
  assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
  silent = "[...document.querySelectorAll('img:not([alt]), svg:not([aria-label])')].length"
  assert browser.evaluate(silent) == 0
  assert browser.evaluate("[...document.querySelectorAll('th:not([scope])')].length") == 0


def test_the_keyboard_comes_first_to_the_content_then_to_the_sections(pages, browser):
  browser.open(pages["pushed"], width=1280)
  browser.press_tab()
  assert browser.evaluate("document.activeElement.getAttribute('href')") == "#main"
  browser.press_tab()
  assert browser.evaluate("document.activeElement.getAttribute('href')") == "#verdict"
  assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
  reachable = "[...document.querySelectorAll('summary, .scroll')].every(each => each.tabIndex >= 0)"
  assert browser.evaluate(reachable)


def test_the_drawing_of_the_pipeline_stands_on_a_phone_and_lies_on_a_desk(pages, browser):
  shown = """[...document.querySelectorAll('svg.dag')]
    .filter(each => each.getClientRects().length).map(each => each.classList[1])"""
  browser.open(pages["pushed"], width=390)
  assert browser.evaluate(shown) == ["standing"]
  browser.open(pages["pushed"], width=1280)
  assert browser.evaluate(shown) == ["lying"]
