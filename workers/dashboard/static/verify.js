// Offers to verify a page in the reader's browser, and writes down what came of it.
//
// The verifier is fetched when somebody asks for it, or at once where the page says so.

const panel = document.getElementById("verification");
const { base, kind, auto } = panel.dataset;
const MARKS = {
  holds: "\u2713 holds",
  fails: "\u2717 fails",
  open: "\u2013 not checked",
  first: "\u2022 first visit",
  stated: "\u2022 stated",
};

const byName = (name) => panel.querySelector(`[data-part="${name}"]`);

function line({ title, result, text }) {
  const item = document.createElement("li");
  const [mark, name, words] = ["strong", "b", "span"].map((tag) => document.createElement(tag));
  item.dataset.result = result;
  [mark.textContent, name.textContent, words.textContent] = [MARKS[result], title, text];
  item.append(mark, " ", name, ": ", words);
  return item;
}

function summary(checks) {
  const count = (result) => checks.filter((check) => check.result === result).length;
  const [holds, fails, open] = ["holds", "fails", "open"].map(count);
  const at = new Date().toISOString().slice(11, 19);
  const made = holds + fails;
  if (fails)
    return `Something is wrong: of ${made} checks that your browser made at ${at} UTC, ${fails} failed.`;
  const rest = open ? ` ${open} could not be made, so the server alone says the rest.` : "";
  return `Your browser made ${made} checks at ${at} UTC, and all of them hold.${rest}`;
}

async function verify(button) {
  button.disabled = true;
  const said = byName("said");
  said.textContent = "Your browser is checking\u2026";
  try {
    const { verifyPage, kept } = await import("./verification.js");
    const checks = await verifyPage(base, { ...panel.dataset }, document.querySelectorAll("[data-proved]"));
    byName("checks").replaceChildren(...checks.map(line));
    said.textContent = summary(checks);
    panel.dataset.state = checks.some(({ result }) => result === "fails") ? "fails" : "holds";
    byName("forget").hidden = kept(base) === null;
  } catch (error) {
    said.textContent = `Your browser checked nothing: ${error.message}`;
  }
  button.disabled = false;
}

const button = byName("verify");
button.hidden = false;
byName("said").textContent = "Your browser has checked nothing of this page yet; all of it is what the server says.";
button.addEventListener("click", () => verify(button));
byName("forget").addEventListener("click", async () => {
  const { forget } = await import("./verification.js");
  forget(base);
  await verify(button);
});
if (auto === "yes") verify(button);
