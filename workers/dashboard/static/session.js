// Moves through the steps of a session with a slider; every step is in the page, and has a link too.
const slider = document.getElementById("step");
const left = document.getElementById("left");
const after = document.getElementById("after-step");
const counts = left.dataset.left.split(" ");
const fates = [...document.querySelectorAll("#fates li[data-fell]")];
const rows = [...document.querySelectorAll("#steps tr[data-step]")];

slider.addEventListener("input", () => {
  const at = Number(slider.value);
  after.textContent = slider.value;
  left.textContent = counts[at];
  for (const fate of fates) fate.toggleAttribute("data-gone", Number(fate.dataset.fell) <= at);
  for (const row of rows) {
    if (Number(row.dataset.step) === at) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }
});
document.getElementById("slide").hidden = false;
