// Keeps the page true: takes each picture and patches what changed, in place.
//
// Rules:
// 1. Only textContent, numbers of meters and data-state are written; no markup is ever parsed.
// 2. Nothing moves under the reader. Rows are patched where they stand; what is gone is marked,
//    what is new comes at the end or, where the order matters, waits behind a button.
// 3. The live region speaks when a state changes, never when a number does.
//
// A row is an element with data-key. Its fields are data-f, its lists data-list, and both belong
// to the nearest data-key above them; the page itself is the outermost row.

const STALE_MS = 3000;
const WORD_CHARS_MAX = 24;
const PIECES =
  /(?<![\p{L}\p{N}])(?:[\p{L}\p{N}]|[^\p{L}\p{N}]{1,4}(?=\p{N})){1,24}(?![\p{L}\p{N}])[^\p{L}\p{N}]{0,24}|[\p{L}\p{N}]{1,8}[^\p{L}\p{N}]{0,24}|[^\p{L}\p{N}]{1,24}/gu;
const SPOKEN_MAX = 3;
const GONE_MAX = 8;

const $ = (id) => document.getElementById(id);
const bindings = new WeakMap();
const shown = new WeakMap();
const waiting = new Map();
const spoken = [];

let latest = null; // the last picture that came
let drawn = null; // the picture that the page shows; another one only while paused
let heardMs = performance.now();
let paused = false;
let connection = "still";

// ---- rows ---------------------------------------------------------------------------------

function bind(row) {
  let bound = bindings.get(row);
  if (!bound) {
    const own = (selector) =>
      [...row.querySelectorAll(selector)].filter(
        (element) => element.parentElement.closest("[data-key]") === row,
      );
    bound = { fields: own("[data-f]"), lists: own("[data-list]") };
    bindings.set(row, bound);
  }
  return bound;
}

function patch(row, data) {
  const old = shown.get(row) ?? {};
  if (old === data) return;
  shown.set(row, data);
  const { fields, lists } = bind(row);
  for (const element of fields) {
    const name = element.dataset.f;
    if (name in data && !same(old[name], data[name])) write(element, name, data);
    else if (element.localName === "meter") write(element, name, data);
  }
  if ("state" in data && row.dataset.state !== data.state) {
    row.dataset.state = data.state;
    if (row.parentElement.dataset.list === "workers") {
      spoken.push(`Worker ${row.dataset.key} is ${data.state}.`);
    }
  }
  for (const list of lists) {
    const name = list.dataset.list;
    if (data[name]?.order) patchList(list, data[name]);
  }
}

function same(a, b) {
  return a === b || (Array.isArray(a) && Array.isArray(b) && a.join("\n") === b.join("\n"));
}

function write(element, name, data) {
  const value = data[name];
  if (element.localName === "meter") {
    if (value === undefined) return;
    if (element.max !== data[`${name}_max`]) element.max = data[`${name}_max`];
    if (element.value !== value) element.value = value;
  } else if (Array.isArray(value)) {
    element.replaceChildren(...value.map((text) => fill(document.createElement("li"), text)));
  } else if (element.dataset.iso) {
    writeTime(element, value, data);
  } else {
    if (element.textContent !== value) fill(element, value);
    // A name that leads to its page; encoded, it can be no other path and no other scheme.
    if (element.dataset.to) element.href = element.dataset.to + encodeURIComponent(value);
    if (element.dataset.address) lead(element, data[element.dataset.address]);
  }
}

// A time says its age by `shell.js`; only another time is written over that.
function writeTime(element, value, data) {
  const time = data[element.dataset.iso];
  if (element.dateTime === time) return;
  element.dateTime = time;
  if (time) element.dataset.exact = data[`${element.dataset.f}_exact`];
  element.textContent = value;
}

// An address that the server made; below the root of the dashboard it can be no scheme.
function lead(element, address) {
  if (address) element.href = `./${address}`;
  else element.removeAttribute("href");
}

function fill(element, text) {
  element.textContent = "";
  for (const [place, piece] of pieces(text).entries()) {
    if (place) element.append(document.createElement("wbr"));
    element.append(piece);
  }
  return element;
}

// Where a line may end in a long name: as `breakable_pieces` of workers/dashboard/sanitize.py.
function pieces(text) {
  const parts = [""];
  for (const [token] of text.matchAll(/[^\s-]*[\s-]*/gu)) {
    const [first, ...others] = token.length > WORD_CHARS_MAX ? token.match(PIECES) : [token];
    parts[parts.length - 1] += first;
    parts.push(...others);
  }
  return parts;
}

// ---- lists --------------------------------------------------------------------------------

const rowsOf = (list) => [...list.children].filter((child) => "key" in child.dataset);

function grow(list, key) {
  const template = $(`row-${list.dataset.template ?? list.dataset.list}`);
  const row = template.content.firstElementChild.cloneNode(true);
  row.dataset.key = key;
  return row;
}

function patchList(list, data) {
  const standing = new Map(rowsOf(list).map((row) => [row.dataset.key, row]));
  for (const [key, row] of standing) {
    const fields = data.rows.get(key);
    if (fields) patch(row, fields);
    mark(row, !fields && list.dataset.mode !== "wait");
  }
  const fresh = data.order.filter((key) => !standing.has(key));
  const modes = { append: appendRows, reuse: reuseRows, wait: holdRows };
  modes[list.dataset.mode ?? "append"](list, data, fresh);
}

function mark(row, gone) {
  if (row.classList.contains("gone") !== gone) row.classList.toggle("gone", gone);
}

function appendRows(list, data, fresh) {
  const gone = rowsOf(list).filter((row) => row.classList.contains("gone"));
  for (const row of gone.slice(0, Math.max(gone.length - GONE_MAX, 0))) row.remove();
  for (const key of fresh) {
    const row = grow(list, key);
    list.append(row);
    patch(row, data.rows.get(key));
  }
}

// A new row takes the place of one that went, so that the page keeps its height.
function reuseRows(list, data, fresh) {
  const free = rowsOf(list).filter((row) => row.classList.contains("gone"));
  for (const key of fresh) {
    const row = free.shift();
    if (!row) {
      appendRows(list, data, [key]);
      continue;
    }
    row.dataset.key = key;
    mark(row, false);
    patch(row, data.rows.get(key));
  }
}

function holdRows(list, data, fresh) {
  const name = list.dataset.list;
  waiting.set(name, { list, data });
  const follows = document.querySelector(`[data-follow="${name}"]`).checked;
  if (follows || rowsOf(list).length === 0) {
    release(name);
    return;
  }
  const all = fresh.length > 0 && fresh.length === data.order.length;
  offer(name, fresh.length === 0 ? "Nothing new" : `Show ${fresh.length}${all ? "+" : ""} new`);
}

function offer(name, text) {
  const button = document.querySelector(`[data-show="${name}"]`);
  if (button.textContent === text) return;
  button.textContent = text;
  button.setAttribute("aria-disabled", String(text === "Nothing new"));
}

function release(name) {
  const { list, data } = waiting.get(name);
  const standing = new Map(rowsOf(list).map((row) => [row.dataset.key, row]));
  const rows = data.order.map((key) => standing.get(key) ?? grow(list, key));
  list.replaceChildren(...rows);
  rows.forEach((row, place) => patch(row, data.rows.get(data.order[place])));
  offer(name, "Nothing new");
}

// ---- freshness, banner, spoken words ------------------------------------------------------

function patchParts(parts) {
  for (const [name, { origin, error }] of Object.entries(parts)) {
    document.querySelector(`[data-part="${name}"] span`).textContent = origin;
    const box = document.querySelector(`[data-error="${name}"]`);
    if (box.hidden === Boolean(error)) {
      box.hidden = !error;
      spoken.push(error ? `${name} cannot be read.` : `${name} can be read again.`);
    }
    if (error) box.querySelector("span").textContent = error;
  }
}

function span(ms) {
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}

function tick() {
  if (document.hidden) return;
  const now = performance.now();
  const silentMs = now - heardMs;
  for (const [name, { age_ms }] of Object.entries(drawn?.parts ?? {})) {
    const age = document.querySelector(`[data-part="${name}"] span + span`);
    age.textContent = span(age_ms + drawn.held_ms + now - drawn.cameMs);
  }
  if (silentMs > STALE_MS) become("lost");
  const banner = $("banner");
  banner.hidden = connection !== "lost";
  if (!banner.hidden) {
    banner.textContent = `No news for ${span(silentMs)}. What stands here is as of ${$("time").textContent} UTC. Reconnecting.`;
  }
}

const WORDS = {
  still: ["○", "Still", ""],
  live: ["●", "Live", "The page is live."],
  lost: ["◌", "Out of date", "The page is out of date; reconnecting."],
};

function become(state) {
  const [mark, word, sentence] = WORDS[state];
  const said = paused ? "Paused" : word;
  if ($("word").textContent !== said) {
    $("word").textContent = said;
    $("mark").textContent = paused ? "‖" : mark;
    $("status").dataset.state = paused ? "paused" : state;
  }
  if (connection === state) return;
  connection = state;
  spoken.push(sentence);
  speak();
}

function speak() {
  if (spoken.length === 0) return;
  const more = spoken.length > SPOKEN_MAX ? ` And ${spoken.length - SPOKEN_MAX} more changes.` : "";
  $("say").textContent = spoken.slice(0, SPOKEN_MAX).join(" ") + more;
  spoken.length = 0;
}

// ---- the stream ---------------------------------------------------------------------------

function hear(frame) {
  heardMs = performance.now();
  latest = { ...frame, cameMs: heardMs };
  become("live");
  $("banner").hidden = true;
  if (!paused) show();
}

// What needs somebody is said where a tab that is not looked at is seen.
function showNeeds({ a_urgent, a_words }) {
  if (a_urgent === undefined || a_urgent === $("needs").dataset.urgent) return;
  $("needs").dataset.urgent = a_urgent;
  const isCalm = a_urgent === "0";
  document.title = (isCalm ? "" : `(${a_urgent}) `) + document.title.replace(/^\([\d?]+\) /, "");
  const icon = document.querySelector("link[rel=icon]");
  icon.href = `${document.body.dataset.icons}/${isCalm ? "icon" : "alert"}.svg`;
  spoken.push(a_words ? `${a_words}.` : "Nothing needs anybody any more.");
}

function show() {
  drawn = latest;
  showNeeds(latest.page);
  $("time").dateTime = latest.time;
  patch(document.body, latest.page);
  patchParts(latest.parts);
  tick();
  speak();
}

function pause() {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  spoken.push(paused ? "Paused." : "No longer paused.");
  become(connection);
  if (!paused && latest) show();
  speak();
}

function ownStream() {
  let close = null;
  const module = import("./stream.js");
  return async (word) => {
    const { open } = await module;
    close?.();
    close = word === "wake" ? open(document.body.dataset.events, hear) : null;
  };
}

function sharedStream(failed) {
  const worker = new SharedWorker(document.body.dataset.hub, { type: "module" });
  worker.onerror = failed;
  worker.port.onmessage = ({ data }) => hear(data);
  return (word) => worker.port.postMessage(word);
}

function start() {
  let tell = null;
  const look = () => tell(document.hidden ? "sleep" : "wake");
  const alone = () => {
    tell = ownStream();
    look();
  };
  try {
    tell = sharedStream(alone);
    look();
  } catch {
    alone();
  }
  document.addEventListener("visibilitychange", () => {
    // A hidden page hears nothing by its own wish; that is no silence.
    heardMs = performance.now();
    look();
  });
  addEventListener("pagehide", () => tell("sleep"));
  addEventListener("pageshow", ({ persisted }) => persisted && look());
}

for (const element of document.querySelectorAll("[data-live]")) element.hidden = false;
for (const button of document.querySelectorAll("[data-show]")) {
  button.addEventListener("click", () => waiting.has(button.dataset.show) && release(button.dataset.show));
}
for (const box of document.querySelectorAll("[data-follow]")) {
  box.addEventListener("change", () => box.checked && waiting.has(box.dataset.follow) && release(box.dataset.follow));
}
$("pause").addEventListener("click", pause);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing) pause();
});
setInterval(tick, 1000);
start();

// What draws over charts is loaded when somebody comes near them, and not with the page.
for (const kind of ["pointerover", "focusin"]) {
  document.querySelector("section[aria-labelledby=charts]")?.addEventListener(kind, () => import("./brush.js"), { once: true });
}
