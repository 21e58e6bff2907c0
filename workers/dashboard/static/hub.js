// A SharedWorker: the only stream of all tabs, because a browser opens six to one host at most.
//
// A tab says "wake" when it is looked at and "sleep" when it is hidden or left; the stream is
// open only while somebody looks.

import { open } from "./stream.js";

const EVENTS = new URL("../../events", self.location.href).href;

const awake = new Set();
let close = null;
let last = null;

function say(frame) {
  last = frame;
  for (const port of awake) port.postMessage(frame);
}

function wake(port) {
  awake.add(port);
  if (close === null) {
    close = open(EVENTS, say);
  } else if (last) {
    port.postMessage(last);
  }
}

function sleep(port) {
  awake.delete(port);
  if (awake.size === 0 && close !== null) {
    close();
    close = null;
    last = null;
  }
}

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => (data === "wake" ? wake(port) : sleep(port));
};
