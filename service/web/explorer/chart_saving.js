// Pictures as files: SVG or PNG, with title, on white ground, and as large as the server draws them.

import { save } from "./files.js";
import { element } from "./dom.js";
import { viewOf } from "./chart_view.js";

const INK = "#1b1b1b";
const PAPER = "white";
const PADDING = 12;
const PIXELS = 2;  // of a PNG, per unit
const LONGEST_NAME = 60;

// Two buttons for the picture that spec() gives.
export function saveButtons(spec, title) {
  const button = (words, saved) => element("button", { type: "button", onclick: () => saved(onPaper(spec()), fileName(title())) }, words);
  return element("p", { class: "actions" }, button("Save as SVG", saveSvg), button("Save as PNG", savePng));
}

async function saveSvg(spec, name) {
  const view = viewOf(spec, { renderer: "none" });
  save(`${name}.svg`, "image/svg+xml", await view.toSVG());
  view.finalize();
}

async function savePng(spec, name) {
  const view = viewOf(spec, { renderer: "none" });
  const canvas = await view.toCanvas(PIXELS);
  canvas.toBlob((image) => save(`${name}.png`, "image/png", image), "image/png");
  view.finalize();
}

// The title in small letters and digits; what else is in it becomes hyphens.
export function fileName(title) {
  const plain = title.normalize("NFKD").toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+/, "");
  return plain.slice(0, LONGEST_NAME).replace(/[-.]+$/, "") || "picture";
}

const onPaper = (spec) => ({ ...inked(spec), background: PAPER, padding: PADDING });

// The spec with the colour of the text around it replaced by ink; its data stay as they are.
function inked(part) {
  if (Array.isArray(part)) return part.map(inked);
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, each]) => [name,
    name === "values" || name === "params" ? each : each === "currentColor" && /color$/i.test(name) ? INK : inked(each)]));
}
