
// Verifies the page in which it stands: its fingerprint, each proof file, and each text that the
// page says is in the log. `verified` stands above, in the same script.

const SLOT = /(<code id="fingerprint">)[0-9a-f]*/;
const WRAPPED =
  /^<UNTRUSTED_CONTENT source="[^"<>]*" kind="[^"<>]*">\n([\s\S]*)\n<\/UNTRUSTED_CONTENT>$/;
const ESCAPES = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };
const MISLEADING =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;
const asParsed = `<!doctype html>${document.documentElement.outerHTML}`;

const encodedText = (value) => new TextEncoder().encode(value);
const digestOf = async (value) => hex(new Uint8Array(await subtle.digest("SHA-256", value)));
const fingerprintOf = (page) => digestOf(encodedText(page.replace(SLOT, "$1")));
const byId = (id) => document.getElementById(id);

/** Tells whether this browser verifies signatures of a key's kind. */
async function isKnownHere(vkey) {
  const [, encodedKey] = /^[^+]*\+[0-9a-f]*\+(.*)$/.exec(vkey);
  const [kind, ...key] = Uint8Array.from(atob(encodedKey), (each) => each.charCodeAt(0));
  if (kind !== ML_DSA_44) return true;
  const algorithm = { name: "ML-DSA-44" };
  const imported = subtle.importKey("raw-public", new Uint8Array(key), algorithm, false, ["verify"]);
  return imported.then(() => true, () => false);
}

/** Returns a text as the page shows it: what misleads a reader has a replacement in its place. */
function shownText(text) {
  return text.replace(MISLEADING, "\ufffd");
}

/** Returns what stands at a path in what was proved, as the page writes it. */
function valueAt(proved, path) {
  const value = path.split(".").reduce((inner, name) => inner?.[name], proved);
  return shownText(Array.isArray(value) ? value.join(" ") : String(value));
}

/** Returns the text that a field holds: content from outside is wrapped and escaped. */
function textOf(stated) {
  const wrapped = WRAPPED.exec(stated);
  if (wrapped === null) return stated;
  return wrapped[1].replace(/&(amp|lt|gt|quot|#x27);/g, (_, name) => ESCAPES[name]);
}

/** Tells whether some text in an envelope has these words at this place, in characters. */
function hasWords(value, offset, length, words) {
  if (typeof value === "string") {
    const stretch = Array.from(textOf(value)).slice(offset, offset + length).join("");
    return shownText(stretch) === words;
  }
  if (value === null || typeof value !== "object") return false;
  return Object.values(value).some((inner) => hasWords(inner, offset, length, words));
}

/** Marks a text as what was proved, or as something else. */
function judge(element, holds, problems) {
  element.classList.add(holds ? "proved" : "differs");
  if (!holds) problems.push(`“${element.textContent.slice(0, 80)}” is not what was proved`);
  return holds;
}

function tell(verdict, isGood, lines) {
  verdict.className = isGood ? "holds" : "fails";
  verdict.textContent = lines.join("\n");
}

async function verifyPage() {
  const verdict = byId("verdict");
  if (subtle === undefined) {
    tell(verdict, false, ["This browser has no cryptography for a file: it verified nothing."]);
    return;
  }
  const problems = [];
  if ((await fingerprintOf(asParsed)) !== byId("fingerprint").textContent) {
    problems.push("The page was changed after it was written: its fingerprint is another one");
  }
  const { vkeys, proofs } = JSON.parse(byId("exhibit").textContent);
  const known = [];
  for (const vkey of vkeys) if (await isKnownHere(vkey)) known.push(vkey);
  const proved = [];
  for (const { kind, id, content } of proofs) {
    try {
      proved.push(await verified(encodedText(content), known));
    } catch (error) {
      proved.push(null);
      problems.push(`The proof of ${kind} ${id} does not hold: ${error.message}`);
    }
  }
  let count = 0;
  for (const element of document.querySelectorAll("[data-proof]")) {
    const { proof, path } = element.dataset;
    const holds = valueAt(proved[proof], path) === element.textContent;
    count += judge(element, holds, problems);
  }
  for (const element of document.querySelectorAll("[data-words]")) {
    const { words, offset, length } = element.dataset;
    const envelope = proved[words]?.envelope ?? null;
    const holds = hasWords(envelope, Number(offset), Number(length), element.textContent);
    count += judge(element, holds, problems);
  }
  const shown = byId("verifier").textContent;
  const own = document.querySelector('script[type="module"]').textContent;
  const end = own.indexOf("\n\n// Verifies the page in which it stands");
  if ((await digestOf(encodedText(own.slice(0, end)))) !== shown) {
    problems.push("The verifier in the page is not the one whose fingerprint it shows");
  }
  const heads = new Set(proved.map((each) => each?.tree_head));
  if (heads.size !== 1) problems.push("The proofs are not of one checkpoint");
  if (problems.length > 0) {
    tell(verdict, false, ["This page does not verify.", ...problems]);
    return;
  }
  tell(verdict, true, [
    `This browser verified the page at ${new Date().toISOString()}: ${proofs.length} proofs hold` +
      ` under the checkpoint ${[...heads][0]} of ${proved[0].origin}, and ${count} texts are what` +
      " the log has (marked \u2713).",
    `${known.length} of ${vkeys.length} keys of the log have signed` +
      (known.length < vkeys.length ? "; this browser does not know the kind of the others." : "."),
    "It is worth what these keys are worth: compare their fingerprints with those from elsewhere.",
  ]);
}

byId("file").addEventListener("change", async ({ target }) => {
  const page = await target.files[0].text();
  const holds = (await fingerprintOf(page)) === byId("fingerprint").textContent;
  const text = holds ? "is this page, byte for byte" : "was changed: its fingerprint is another one";
  byId("of-file").textContent = ` The file ${text}.`;
});

await verifyPage().catch((error) => {
  tell(byId("verdict"), false, [`This page could not be verified: ${error.message}`]);
});
