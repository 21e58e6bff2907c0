// A span of time that is drawn over a chart leads to the requests that were asked for in it.
// Without this module the form beside each chart does the same.

const STEPS = 60;

const words = time => new Date(time).toISOString().slice(0, 19);

for (const chart of document.querySelectorAll("figure.chart")) {
  const svg = chart.querySelector("svg[role=img]");
  const [, , width] = svg.getAttribute("viewBox").split(" ").map(Number);
  const [, left, , right] = svg.querySelector(".rows path").getAttribute("d").split(/[M H]/).map(Number);
  const since = Date.parse(`${chart.dataset.since}Z`);
  const until = Date.parse(`${chart.dataset.until}Z`);
  const area = document.createElement("div");
  const band = document.createElement("div");
  const says = document.createElement("p");
  area.className = "brush";
  area.tabIndex = 0;
  area.setAttribute("role", "group");
  area.setAttribute("aria-label", "Select a time: arrows move, shift and arrows extend, Enter opens its requests");
  says.className = "chosen";
  says.setAttribute("aria-live", "polite");
  band.hidden = true;
  area.append(band);
  svg.replaceWith(area);
  area.prepend(svg);
  area.after(says);
  // Shares of the span, from where a choice began to where it ends now.
  let from = null;
  let to = null;

  const show = () => {
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    band.hidden = false;
    band.style.left = `${(left + low * (right - left)) / width * 100}%`;
    band.style.width = `${(high - low) * (right - left) / width * 100}%`;
    const [start, end] = [low, high].map(share => words(since + share * (until - since)).replace("T", " "));
    says.textContent = `${start} to ${end} UTC`;
  };
  const clear = () => {
    from = to = null;
    band.hidden = true;
    says.textContent = "";
  };
  const open = () => {
    if (from === null || from === to) return;
    const target = new URL(chart.dataset.to, document.baseURI);
    target.searchParams.set("since", words(since + Math.min(from, to) * (until - since)));
    target.searchParams.set("until", words(since + Math.max(from, to) * (until - since)));
    location.assign(target);
  };
  const share = event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * width;
    return Math.min(Math.max((x - left) / (right - left), 0), 1);
  }

  area.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    area.setPointerCapture(event.pointerId);
    from = to = share(event);
  });
  area.addEventListener("pointermove", event => {
    if (from === null || !area.hasPointerCapture(event.pointerId)) return;
    to = share(event);
    show();
  });
  area.addEventListener("pointerup", event => {
    if (!area.hasPointerCapture(event.pointerId)) return;
    to = share(event);
    // A click chooses nothing.
    if (Math.abs(to - from) * STEPS < 0.5) clear();
    else open();
  });
  area.addEventListener("pointercancel", clear);
  area.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Enter") open();
    else if (event.key === "Escape") clear();
    else if (step) {
      event.preventDefault();
      if (from === null) [from, to] = [1 - 1 / STEPS, 1];
      else {
        to = Math.min(Math.max(to + step / STEPS, 0), 1);
        if (!event.shiftKey) from = Math.min(Math.max(from + step / STEPS, 0), 1);
      }
      show();
    }
  });
}
