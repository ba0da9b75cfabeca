// The phase of the whole page, and the form that each panel is of.
//
// Every change of the form makes a new revision of it. A panel holds something of one revision. The panel is old, and says
// so, as soon as the form has another revision. In the phases empty and failed no panel holds anything.

import { element } from "./dom.js";

export const PHASES = {
  empty: { edit: "empty", blank: "empty", ask: "asking" },
  asking: { edit: "stale", blank: "empty", ask: "asking", answer: "answered", fail: "failed" },
  answered: { edit: "stale", blank: "empty", ask: "asking", fail: "failed" },
  stale: { edit: "stale", blank: "empty", ask: "asking" },
  failed: { edit: "failed", blank: "empty", ask: "asking" },
};
const WITHOUT_ANSWER = new Set(["empty", "failed"]);
const OLD = "Of the form before your last change";

let phase = "empty";
let revision = 0;
let sequence = 0;
let controller = new AbortController();
const panels = new Set();
const watchers = [];

export const phaseNow = () => phase;
export const revisionNow = () => revision;
export const onPhase = (watcher) => watchers.push(watcher);

function move(event) {
  const next = PHASES[phase][event];
  if (!next) throw new Error(`The phase ${phase} knows no ${event}.`);
  phase = next;
  if (WITHOUT_ANSWER.has(phase)) for (const each of panels) each.clear();
  for (const each of panels) each.mark();
  document.documentElement.dataset.phase = phase;
  for (const watcher of watchers) watcher(phase);
}

// Note a change of the form: what is being asked is given up, and every panel is old.
export function edit() {
  revision += 1;
  giveUp();
  move("edit");
}

// Note that the form has nothing to ask about.
export function blank() {
  giveUp();
  move("blank");
}

// Begin to ask: a ticket for everything that comes of it. A newer ticket makes it void.
export function begin() {
  giveUp();
  move("ask");
  return ticket();
}

// A ticket that changes no phase, for a picture that follows a slider.
export function ticket() {
  giveUp();
  const mine = sequence;
  const { signal } = controller;
  return {
    revision,
    signal,
    get isCurrent() { return mine === sequence && !signal.aborted; },
    answer() { if (this.isCurrent) move("answer"); },
    fail() { if (this.isCurrent) move("fail"); },
  };
}

function giveUp() {
  controller.abort();
  controller = new AbortController();
  sequence += 1;
}

// A part of the page that holds something of an answer. `node` is hidden while the panel holds nothing, `empty()` takes
// away what it holds.
export class Panel {
  constructor(node, empty) {
    this.node = node;
    this.empty = empty;
    this.of = null;
    this.note = element("p", { class: "old-note", id: `${node.id}-old` }, OLD);
    panels.add(this);
  }

  // Show in the panel what `show()` makes, unless the ticket is void. Whether it was shown.
  put(given, show) {
    if (!given.isCurrent) return false;
    show();
    this.hold(given);
    return true;
  }

  // Note of which form the panel is now. A drawing that comes late is of an earlier form, or has no place any more.
  hold(given) {
    if (WITHOUT_ANSWER.has(phase)) {
      this.clear();
      return;
    }
    if (this.of !== null && given.revision < this.of) return;
    this.of = given.revision;
    this.node.hidden = false;
    this.mark();
  }

  clear() {
    this.of = null;
    this.empty();
    this.node.hidden = true;
    this.mark();
  }

  // Empty a panel that holds something of an earlier form.
  clearIfOld(given) { if (given.isCurrent && this.of !== given.revision) this.clear(); }

  get isOld() { return this.of !== null && this.of !== revision; }

  mark() {
    const old = this.isOld;
    this.node.classList.toggle("old", old);
    this.node.dataset.holds = this.of === null ? "nothing" : old ? "old" : "current";
    if (old) this.node.prepend(this.note);
    else this.note.remove();
    if (old) this.node.setAttribute("aria-describedby", this.note.id);
    else this.node.removeAttribute("aria-describedby");
    for (const button of this.node.querySelectorAll("[data-current-only], .actions button")) {
      if (button.closest("[data-holds]") === this.node) button.disabled = old;  // a panel within has its own
    }
  }
}

// Whether something of an earlier form stands on the page.
export const holdsOld = () => [...panels].some((each) => each.isOld);
