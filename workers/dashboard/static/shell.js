// Serves every page: keys, the palette, ids that are copied, times that grow older, what was typed.
//
// Without it a page has its search box and its links, exact times under the pointer, and ids to select.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const DATED_S = 90 * 86400;
const RENEWED_MS = 5000;
const COPIED_MS = 2000;

const box = document.getElementById("q");
const places = [...document.querySelectorAll("header nav a")];

function make(name, properties = {}, ...children) {
  const { attributes = {}, ...own } = properties;
  const element = Object.assign(document.createElement(name), own);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// ---- times --------------------------------------------------------------------------------

// The same words as `ago` of workers/dashboard/formatting.py.
function ago(then, now) {
  const seconds = Math.trunc((now - then) / 1000);
  if (Math.abs(seconds) >= DATED_S) return new Date(then).toISOString().slice(0, 10);
  const [span, unit] = UNITS.find(([span]) => Math.abs(seconds) >= span) ?? [0, ""];
  if (!span) return "now";
  const words = `${Math.trunc(Math.abs(seconds) / span)} ${unit}`;
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}

function renewTimes() {
  if (document.hidden) return;
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-exact]")) {
    const then = Date.parse(time.dateTime);
    const words = Number.isNaN(then) ? time.textContent : ago(then, now);
    if (time.textContent !== words) time.textContent = words;
  }
}

// ---- tables that are moved sideways ---------------------------------------------------------

// What a pointer moves a key moves too, also where nothing inside takes the focus.
function reachTables() {
  for (const section of document.querySelectorAll("main :is(section, form):has(> table)")) {
    const isMoved = section.scrollWidth > section.clientWidth && !section.querySelector("table a");
    if (isMoved) section.tabIndex = 0;
    else section.removeAttribute("tabindex");
  }
}

// ---- what was typed into a form whose login had ended ------------------------------------------

// A form is kept in this tab as it is sent. Where the login follows, the page of the form is opened
// again behind it, for the same reader, and filled; in every other case it is forgotten.

const KEPT = "rotulus typed";

const principal = () => document.querySelector("form[data-principal]")?.dataset.principal ?? "";

function keepTyped(event) {
  const form = event.target;
  if (form.method !== "post" || !principal() || form.dataset.principal) return;
  const fields = [...new FormData(form)].filter(
    ([name, value]) => typeof value === "string" && name !== "form_token",
  );
  const action = form.action;
  const typed = { page: location.href, action, fields, principal: principal(), isLost: false };
  sessionStorage.setItem(KEPT, JSON.stringify(typed));
}

function fill(form, fields) {
  for (const element of form.elements) {
    const values = fields.filter(([name]) => name === element.name).map(([, value]) => value);
    if (element.type === "hidden" || element.type === "submit" || !element.name) continue;
    if (element.type === "checkbox" || element.type === "radio") {
      element.checked = values.includes(element.value);
    } else if (values.length) {
      element.value = values[0];
    }
    if (values.length) element.closest("details")?.setAttribute("open", "");
  }
}

// Of several forms to one place it is the one whose hidden fields are the same.
function isOf(form, typed) {
  const says = (each) => typed.fields.some(([name, value]) => name === each.name && value === each.value);
  const hidden = [...form.elements].filter(({ type, name }) => type === "hidden" && name !== "form_token");
  return form.action === typed.action && hidden.every(says);
}

function giveTypedBack() {
  const text = sessionStorage.getItem(KEPT);
  if (!text) return;
  sessionStorage.removeItem(KEPT);
  const typed = JSON.parse(text);
  if (document.querySelector("[data-login]")) {
    sessionStorage.setItem(KEPT, JSON.stringify({ ...typed, isLost: true }));
  } else if (typed.isLost && typed.principal === principal()) {
    if (location.href !== typed.page) {
      if (typed.isLed) return;
      sessionStorage.setItem(KEPT, JSON.stringify({ ...typed, isLed: true }));
      location.replace(typed.page);
      return;
    }
    const form = [...document.forms].find((each) => isOf(each, typed));
    if (form) fill(form, typed.fields);
  }
}

// ---- copying ------------------------------------------------------------------------------

async function copy(text, shown) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  // Plain http on a host name has no clipboard; what is selected can be copied all the same.
  const whole = make("textarea", { value: text, className: "hush" });
  shown.after(whole);
  whole.select();
  const done = document.execCommand("copy");
  whole.remove();
  return done;
}

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

function offerCopying(id) {
  const shown = id.querySelector("code");
  const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-label", `Copy ${shown.textContent.slice(0, 40)}`);
  button.addEventListener("click", async () => {
    const done = await copy(id.dataset.whole ?? shown.textContent, shown).catch(() => false);
    if (!done) select(shown);
    button.textContent = done ? "Copied" : "Selected";
    button.focus();
    setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
  });
  id.append(" ", button);
}

// ---- the palette --------------------------------------------------------------------------

function makePalette() {
  const list = make("ul", { id: "palette-list", role: "listbox", ariaLabel: "Places" });
  const input = make("input", {
    type: "search",
    name: "q",
    maxLength: 512,
    autocomplete: "off",
    role: "combobox",
    ariaLabel: "A place, or anything to search for",
    placeholder: "A place, or anything to search for",
    ariaExpanded: "true",
    ariaAutoComplete: "list",
    attributes: { "aria-controls": "palette-list" },
  });
  const form = make("form", { method: "get", action: box.form.action }, input, list);
  const dialog = make("dialog", { className: "palette", ariaLabel: "Go to" }, form);
  let options = [];
  let at = 0;

  function mark(place) {
    at = (place + options.length) % options.length;
    options.forEach(({ element }, index) => (element.ariaSelected = String(index === at)));
    input.setAttribute("aria-activedescendant", options[at].element.id);
    options[at].element.scrollIntoView({ block: "nearest" });
  }

  function fill() {
    const text = input.value.trim();
    const fits = places.filter((link) => link.textContent.toLowerCase().includes(text.toLowerCase()));
    options = fits.map((link) => ({ words: link.textContent, go: () => location.assign(link.href) }));
    if (text) options.push({ words: `Search everything for “${text}”`, go: () => form.submit() });
    options.forEach((option, index) => {
      option.element = make("li", { id: `palette-${index}`, role: "option", textContent: option.words });
      option.element.addEventListener("click", option.go);
      option.element.addEventListener("pointermove", () => index !== at && mark(index));
    });
    list.replaceChildren(...options.map(({ element }) => element));
    mark(0);
  }

  input.addEventListener("input", fill);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) mark(at + step);
    if (step) event.preventDefault();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    options[at].go();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  return () => {
    if (dialog.open) return dialog.close();
    input.value = "";
    dialog.showModal();
    fill();
  };
}

// ---- keys ---------------------------------------------------------------------------------

let togglePalette = null;

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (isCommand && event.key.toLowerCase() === "k") {
    event.preventDefault();
    togglePalette ??= makePalette();
    togglePalette();
  } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    box.focus();
    box.select();
  }
});

for (const hint of document.querySelectorAll("[data-keys]")) hint.hidden = false;
for (const id of document.querySelectorAll(".id")) offerCopying(id);
renewTimes();
reachTables();
addEventListener("resize", reachTables);
setInterval(renewTimes, RENEWED_MS);
document.addEventListener("submit", keepTyped);
giveTypedBack();
