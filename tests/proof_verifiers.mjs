// Runs the verifier that is named on each line of the standard input; prints an answer a line.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const verifier = await import(pathToFileURL(process.argv[2]));
const { checkConsistency, checkEta, checkInclusion, verified } = verifier;
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));

const STATED = {
  inclusion: ({ leaf, index, size, path, root }) =>
    checkInclusion(bytes(leaf), BigInt(index), BigInt(size), path.map(bytes), bytes(root)),
  consistency: ({ old_size: oldSize, old_root: oldRoot, size, root, path }) =>
    checkConsistency(BigInt(oldSize), bytes(oldRoot), BigInt(size), bytes(root), path.map(bytes)),
  eta: ({ leaf, place, count, path, root }) =>
    checkEta(bytes(leaf), BigInt(place), BigInt(count), path.map(bytes), bytes(root)),
  file: ({ content, vkeys, policy }) =>
    verified(bytes(content), vkeys, policy === null ? null : bytes(policy)),
};

for await (const line of createInterface({ input: process.stdin })) {
  const stated = JSON.parse(line);
  let answer;
  try {
    answer = { proved: (await STATED[stated.kind](stated)) ?? true };
  } catch (error) {
    if (!(error instanceof verifier.ProofFileInvalid)) throw error;
    answer = { proved: null };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
