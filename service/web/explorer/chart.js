// Pictures: specs of Vega-Lite that the server made; each with its values in words, its files and its table of data.

import { reader } from "./chart_reading.js";
import { saveButtons } from "./chart_saving.js";
import { sized, viewOf } from "./chart_view.js";
import { element, fill, table } from "./dom.js";
import { whole } from "./numbers.js";

const ROWS_SHOWN = 400;
const views = new WeakMap();
const latest = new WeakMap();  // the drawing that was begun last, by host

// Draw a spec into a host; the picture that was drawn there before is replaced when the new one is ready. When two are
// being drawn, the later one stays. The view that is shown, or null where a later one took its place.
export async function draw(host, spec) {
  const width = Math.max(220, Math.min(620, host.clientWidth - 88));
  const stage = element("div", { class: "stage" });
  const view = viewOf(sized(spec, width), { renderer: "svg", container: stage, hover: true });
  latest.set(host, view);
  await view.runAsync();
  if (latest.get(host) !== view) {
    view.finalize();
    return null;
  }
  const svg = stage.querySelector("svg");
  // One name for the whole picture; its marks have none of their own, and the table has the numbers.
  for (const mark of stage.querySelectorAll("svg [role]")) for (const name of ["role", "aria-roledescription", "aria-label"]) mark.removeAttribute(name);
  svg?.setAttribute("role", "img");
  svg?.setAttribute("aria-label", spec.description ?? "Chart");
  views.get(host)?.finalize();
  views.set(host, view);
  host.replaceChildren(stage);
  return view;
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

export const titleOf = (spec) => (typeof spec.title === "string" ? spec.title : [spec.title?.text ?? "Chart"].flat().join(" "));

// The sentences below the title; the server broke them into lines.
const subtitleOf = (spec) => [spec.title?.subtitle ?? []].flat().join(" ");

// A figure with room for a chart, whose words come with the spec: {node, show(spec), note(words), hide()}. A note is what
// is said about the picture beside its own words.
export function figure(id) {
  const host = element("div", { class: "chart" });
  const data = element("div", {});
  const opened = element("details", { class: "data" }, element("summary", {}, "Data of this picture"), data);
  const heading = element("h3", { id: `${id}-title` });
  const subtitle = element("p", { class: "help" });
  const beside = element("div", { class: "beside" });
  const values = reader(id, host);
  let current = null;
  let width = 0;
  const files = saveButtons(() => current, () => titleOf(current));
  const node = element("figure", { id, "aria-labelledby": `${id}-title`, hidden: true }, heading, subtitle, host, values.node, beside, files, opened);
  const redraw = async (spec) => {
    width = host.clientWidth;
    const view = await draw(host, untitled(spec));
    if (view) values.of(view, spec);
  };
  opened.addEventListener("toggle", () => { if (opened.open && current) fill(data, dataTable(current)); });
  new ResizeObserver(() => { if (current && Math.abs(host.clientWidth - width) > 8) redraw(current); }).observe(host);
  return {
    node,
    async show(spec) {
      current = spec;
      node.hidden = false;
      heading.textContent = titleOf(spec);
      subtitle.textContent = subtitleOf(spec);
      subtitle.hidden = subtitle.textContent === "";
      await redraw(spec);
      if (opened.open) fill(data, dataTable(spec));
    },
    note(...words) { fill(beside, ...words); },
    hide() { node.hidden = true; current = null; },
  };
}

const untitled = ({ title, ...spec }) => spec;
