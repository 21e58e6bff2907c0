"""Measures pages where they are drawn: what is too wide, broken, clipped or too small."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TARGET_PX_MIN = 44
WORD_CHARS_MAX = 24
"""A longer word is an id, or meant to be too long; it may be broken anywhere."""

_MEASURE = """([target, longest]) => {
  const problems = [], root = document.documentElement, width = root.clientWidth;
  const name = (node) => {
    const text = (node.textContent || node.name || '').trim().slice(0, 40);
    return `<${node.tagName.toLowerCase()} class="${node.className}"> ${JSON.stringify(text)}`;
  };
  const shown = (node) => node.checkVisibility() && !node.closest('.hush, .skip, template');
  const scrolls = (node) => {
    for (let each = node; each && each !== root; each = each.parentElement)
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(each).overflowX)) return true;
    return false;
  };
  if (root.scrollWidth > width) {
    const wide = [...document.body.querySelectorAll('*')].filter((node) => shown(node)
      && node.getBoundingClientRect().right > width + 1 && !scrolls(node)).slice(-3).map(name);
    problems.push(`is ${root.scrollWidth} px wide: ${wide.join(', ')}`);
  }
  const spoken = 'h1, h2, h3, h4, button, th[scope=col], nav a, summary, label, dt, legend';
  for (const node of document.querySelectorAll(spoken)) {
    if (!shown(node)) continue;
    const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), pieces = [];
    // A place where a line may break divides a text in two, and no word.
    let length = 0, whole = '';
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
      pieces.push([length, text]);
      whole += text.data;
      length = whole.length;
    }
    const put = (place, isEnd) => {
      const found = pieces.findLast(([begin]) => isEnd ? begin < place : begin <= place);
      return [found[1], place - found[0]];
    };
    for (const word of whole.matchAll(/[^\\s-]+/g)) {
      if (word[0].length > longest) continue;
      const range = document.createRange();
      range.setStart(...put(word.index, false));
      range.setEnd(...put(word.index + word[0].length, true));
      const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.bottom / 8)));
      if (lines.size > 1) problems.push(`breaks ${word[0]} in ${name(node)}`);
      const box = range.getBoundingClientRect();
      for (let each = node; each && each !== root; each = each.parentElement) {
        const clips = /hidden|clip/.test(getComputedStyle(each).overflowX);
        const frame = each.getBoundingClientRect();
        if (clips && frame.width > 2 && box.right > frame.right + 1)
          problems.push(`clips ${word[0]} in ${name(node)}`);
      }
    }
  }
  const targets = 'button, nav a, summary, select, textarea, input:not([type=hidden])';
  for (const node of document.querySelectorAll(targets)) {
    if (!shown(node)) continue;
    const ticked = node.matches('[type=checkbox], [type=radio]') && node.closest('label');
    const box = (ticked || node).getBoundingClientRect();
    if (box.height < target - 0.5 || box.width < target - 0.5)
      problems.push(`${Math.round(box.width)} by ${Math.round(box.height)} px: ${name(node)}`);
  }
  return [...new Set(problems)];
}"""
_AXE = """async (leftOut) => {
  const context = {include: document, exclude: leftOut.map((each) => [each])};
  const found = await axe.run(context, {resultTypes: ['violations']});
  return found.violations.map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
}"""
ROWS_ALIKE = ("tbody tr:nth-child(n+5)", "li:nth-child(n+15)")
"""What looks like its siblings, of which axe looks at the first; it computes colours for each."""


def layout_problems(page: "Page") -> list[str]:
    """Return what is wider than the page, broken or clipped, or too small to be hit."""
    problems: list[str] = page.evaluate(_MEASURE, [TARGET_PX_MIN, WORD_CHARS_MAX])
    return problems


def axe_problems(page: "Page", left_out: Sequence[str]) -> list[str]:
    """Return what axe finds, but in what is left out."""
    problems: list[str] = page.evaluate(_AXE, list(left_out))
    return problems


@contextmanager
def watched_page(
    browser: "Browser", url: str, **options: Any
) -> Iterator[tuple["Page", list[str]]]:
    """Open a page of a context of its own, with a list of what goes wrong on its way.

    That is what the console calls an error, a script's exception, a dialog, and a request to
    anybody but `url`.
    """
    context = browser.new_context(**options)
    # Sent once for all pages of the context, and no matter of the policy of a page.
    context.add_init_script(AXE_SCRIPT)
    page, problems = context.new_page(), []

    def note_request(request: Any) -> None:
        if not request.url.startswith(url):
            problems.append(f"asks for {request.url}")

    def note_console(message: Any) -> None:
        # A page that is answered with a status of errors is on the console under its own URL.
        if message.type == "error" and message.location.get("url") != page.url:
            problems.append(f"console: {message.text}")

    def note_dialog(dialog: Any) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("request", note_request)
    page.on("console", note_console)
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("dialog", note_dialog)
    yield page, problems
    context.close()
