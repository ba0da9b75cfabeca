// Pictures: specs of Vega-Lite that the server made, drawn without eval; each with its table of data beside it.

import { element, fill, table } from "./dom.js";
import { whole } from "./numbers.js";

const ROWS_SHOWN = 400;
const views = new WeakMap();
const latest = new WeakMap();  // the drawing that was begun last, by host
// Specs hold their data: nothing is ever loaded by one.
const loader = {
  load: () => Promise.reject(new Error("pictures load nothing")),
  sanitize: () => Promise.reject(new Error("pictures link nowhere")),
};

// Draw a spec into a host; what was drawn there before is replaced when the new picture is ready. Of two that are being
// drawn, the later one stays.
export async function draw(host, spec) {
  const width = Math.max(220, Math.min(620, host.clientWidth - 88));
  const compiled = window.vegaLite.compile(sized(spec, width), { logger: quiet }).spec;
  const stage = element("div", { class: "stage" });
  const view = new window.vega.View(window.vega.parse(compiled, null, { ast: true }), {
    expr: window.vega.expressionInterpreter, renderer: "svg", container: stage, loader, logger: quiet, hover: true,
  });
  latest.set(host, view);
  await view.runAsync();
  if (latest.get(host) !== view) {
    view.finalize();
    return;
  }
  const svg = stage.querySelector("svg");
  // One name for the whole picture; its marks have none of their own, and the table has the numbers.
  for (const mark of stage.querySelectorAll("svg [role]")) for (const name of ["role", "aria-roledescription", "aria-label"]) mark.removeAttribute(name);
  svg?.setAttribute("role", "img");
  svg?.setAttribute("aria-label", spec.description ?? "Chart");
  views.get(host)?.finalize();
  views.set(host, view);
  host.replaceChildren(stage);
}

const quiet = { level() { return this; }, error(...told) { console.error(...told); return this; }, warn() { return this; }, info() { return this; }, debug() { return this; } };

// The same spec as wide as there is room.
function sized(spec, width) {
  const made = { ...spec };
  if ("width" in made) made.width = width;
  for (const name of ["vconcat", "layer"]) if (Array.isArray(made[name])) made[name] = made[name].map((each) => sized(each, width));
  if (made.config) made.config = { ...made.config, legend: { ...made.config.legend, labelLimit: width } };
  return made;
}

// The charts of a spec, one by one, with what they share.
export function parts(spec) {
  const { vconcat, resolve, ...shared } = spec;
  if (!Array.isArray(vconcat)) return [spec];
  return vconcat.map((each) => ({ $schema: shared.$schema, config: shared.config, usermeta: shared.usermeta, params: shared.params, ...each }));
}

// The same spec with numbers for those of its parameters that are named.
export function given(spec, numbers) {
  if (!spec.params) return spec;
  return { ...spec, params: spec.params.map((each) => (numbers[each.name] === undefined ? each : { ...each, value: numbers[each.name] })) };
}

// The rows that a chart is drawn from, as a table.
export function dataTable(spec) {
  const rows = spec.data?.values ?? [];
  if (!rows.length) return element("p", { class: "help" }, "This picture has no rows of data.");
  const heads = [...new Set(rows.flatMap(Object.keys))];
  const shown = rows.slice(0, ROWS_SHOWN).map((row) => heads.map((head) => (typeof row[head] === "number" ? whole(row[head]) : String(row[head] ?? ""))));
  const made = table(`Data of: ${titleOf(spec)}`, heads.map((head) => head.replaceAll("_", " ")), shown);
  return rows.length > ROWS_SHOWN ? element("div", {}, made, element("p", { class: "help" }, `The first ${ROWS_SHOWN} of ${rows.length} rows.`)) : made;
}

// The names of its lines.
export const seriesOf = (spec) => [...new Set((spec.data?.values ?? []).map((row) => row.series))];

export const titleOf = (spec) => (typeof spec.title === "string" ? spec.title : spec.title?.text ?? "Chart");

// A figure with room for a chart, whose words come with the spec: {node, show(spec), note(words), hide()}. A note is what
// is said about the picture beside its own words.
export function figure(id) {
  const host = element("div", { class: "chart" });
  const data = element("div", {});
  const opened = element("details", { class: "data" }, element("summary", {}, "Data of this picture"), data);
  const heading = element("h3", { id: `${id}-title` });
  const reading = element("div", {});
  const beside = element("div", { class: "beside" });
  const node = element("figure", { id, "aria-labelledby": `${id}-title`, hidden: true }, heading, reading, host, beside, opened);
  let current = null;
  let width = 0;
  opened.addEventListener("toggle", () => { if (opened.open && current) fill(data, dataTable(current)); });
  new ResizeObserver(() => {
    if (current && Math.abs(host.clientWidth - width) > 8) { width = host.clientWidth; draw(host, untitled(current)); }
  }).observe(host);
  return {
    node,
    async show(spec) {
      current = spec;
      node.hidden = false;
      width = host.clientWidth;
      heading.textContent = titleOf(spec);
      fill(reading, [spec.title?.subtitle ?? []].flat().map((line) => element("p", { class: "help" }, line)));
      await draw(host, untitled(spec));
      if (opened.open) fill(data, dataTable(spec));
    },
    note(...words) { fill(beside, ...words); },
    hide() { node.hidden = true; current = null; },
  };
}

const untitled = ({ title, ...spec }) => spec;
