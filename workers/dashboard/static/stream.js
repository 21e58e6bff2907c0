// One EventSource and the whole state that its events add up to.
//
// open() calls `say` with each picture and returns what closes the stream. Silence is not told:
// a stream ends every half minute and comes back, so the page judges by the age of the last picture.
// A change merges by the rule of workers/dashboard/hub.py: fields replace, rows merge by key. The
// rows of a list are a Map, so that a key may be any text, `__proto__` too.

const RETRY_MS = 2000;

export function open(url, say) {
  let source = null;
  let timer = 0;
  let page = {};

  function take(event, whole) {
    const { held_ms, frame } = JSON.parse(event.data);
    page = merge(whole ? {} : page, frame.page);
    say({ ...frame, page, held_ms });
  }

  function connect() {
    source = new EventSource(url);
    source.addEventListener("full", (event) => take(event, true));
    source.addEventListener("delta", (event) => take(event, false));
    source.onerror = () => {
      // The browser comes back by itself, except after an answer that was no stream.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(connect, RETRY_MS);
    };
  }

  connect();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}

export function merge(old, change) {
  const merged = { ...old };
  for (const [name, value] of Object.entries(change)) {
    merged[name] = value?.rows ? mergeList(old[name], value) : value;
  }
  return merged;
}

function mergeList(old = { order: [], rows: new Map() }, change) {
  const order = change.order ?? old.order;
  const changed = new Map(Object.entries(change.rows));
  const row = (key) => {
    const known = old.rows.get(key) ?? {};
    return changed.has(key) ? merge(known, changed.get(key)) : known;
  };
  return { order, rows: new Map(order.map((key) => [key, row(key)])) };
}
