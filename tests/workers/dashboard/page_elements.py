"""Reads what a client without a script follows, sends and loads of a page."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_LOADED = {"script": "src", "img": "src", "link": "href"}
_CONTROLS = frozenset({"input", "select", "textarea", "button"})


@dataclass
class Form:
    """A form with what is in its fields before anybody has touched them."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The names of the fields that are for a person."""


@dataclass
class PageElements(HTMLParser):
    """What a page is made of."""

    text: str = ""
    links: list[str] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    """Scripts, styles and handlers that stand in the page itself, which the policy refuses."""

    def __post_init__(self) -> None:
        super().__init__()
        self._select: str | None = None
        self._option: tuple[Form, str] | None = None
        """The form and the field of an option whose value is its text."""

        self._in_template = False
        self.has_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += " "
        stated = {name: value or "" for name, value in attrs}
        if tag == "template":
            self._in_template = True
        if self._in_template:
            return
        if "id" in stated:
            self.ids.append(stated["id"])
        if tag in ("a", "area") and "href" in stated:
            self.links.append(stated["href"])
        if tag in _LOADED and _LOADED[tag] in stated:
            self.loaded.append(stated[_LOADED[tag]])
        self.has_script |= tag == "script"
        if tag == "style" or (tag == "script" and "src" not in stated):
            self.inline.append(tag)
        self.inline += [name for name in stated if name == "style" or name.startswith("on")]
        if tag == "form":
            self.forms.append(Form(stated.get("method", "get").lower(), stated.get("action", "")))
        if self.forms and tag in (*_CONTROLS, "option"):
            self._read_control(tag, stated)

    def handle_endtag(self, tag: str) -> None:
        if tag == "template":
            self._in_template = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._option is not None:
            form, name = self._option
            form.fields[name] = form.fields[name] or data.strip()
            self._option = None

    def _read_control(self, tag: str, stated: dict[str, Any]) -> None:
        form, name = self.forms[-1], stated.get("name")
        if tag == "option":
            if self._select is not None and ("selected" in stated or not form.fields[self._select]):
                form.fields[self._select] = stated.get("value", "")
                self._option = None if "value" in stated else (form, self._select)
            return
        self._select = name if tag == "select" else None
        if not name or (stated.get("type") in ("checkbox", "radio") and "checked" not in stated):
            return
        form.fields[name] = stated.get("value", "")
        if tag != "button" and stated.get("type") != "hidden":
            form.asked.append(name)


def elements_of(html: str) -> PageElements:
    """Return what a page is made of."""
    elements = PageElements()
    elements.feed(html)
    elements.close()
    return elements
