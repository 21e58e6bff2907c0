// Goes through the items of the page of reviews by keyboard: it moves the focus and presses the
// buttons that are there, so whatever it does can be done without it.
const items = [...document.querySelectorAll("article.review")];
const keys = document.getElementById("keys");
let place = -1;

function go(to) {
  if (items.length === 0) return;
  items[place]?.removeAttribute("aria-current");
  place = Math.min(Math.max(to, 0), items.length - 1);
  items[place].setAttribute("aria-current", "true");
  items[place].focus({ preventScroll: true });
  items[place].scrollIntoView({ block: "nearest" });
}

function press(verb) {
  const button = items[place]?.querySelector(`button[data-verb="${verb}"]`);
  if (button) button.click();
}

const pressed = {
  j: () => go(place + 1),
  k: () => go(place - 1),
  x: () => items[place]?.querySelector("input[type=checkbox]").click(),
  c: () => press("confirm"),
  r: () => press("reject"),
  "?": () => { keys.hidden = !keys.hidden; },
};

function isTyping(target) {
  return target instanceof Element
    && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const act = pressed[event.key];
  if (!act || !keys) return;
  event.preventDefault();
  act();
});
document.addEventListener("focusin", (event) => {
  const at = items.findIndex((item) => item.contains(event.target));
  if (at < 0 || at === place) return;
  items[place]?.removeAttribute("aria-current");
  place = at;
  items[at].setAttribute("aria-current", "true");
});
if (keys) keys.hidden = false;
// Who has just decided goes on with the next item.
if (new URLSearchParams(location.search).has("done")) go(0);
