// Values of a picture in words below it: those at the point next to the pointer, or at the place of a slider.

import { element, fill } from "./dom.js";
import { percent, plain, rounded } from "./numbers.js";

const DIGITS = 4;
const EXACT = 17;
const LONG = 9;
const MOST_LINES = 8;
const RATES = ["false_positive_rate", "baseline_success"];
const FIRST_RATE = 1e-3;

// A reader under a host: {node, of(view, spec)}. of() is called whenever another picture is drawn in the host.
export function reader(id, host) {
  const slider = element("input", { type: "range", id: `${id}-reading`, min: "0", step: "1", value: "0" });
  const words = element("output", { for: `${id}-reading`, "aria-live": "off" });
  const node = element("div", { class: "reading" }, element("label", { for: `${id}-reading` }, "Values at"), slider, words);
  const mark = element("div", { class: "mark", hidden: true });
  let read = null;
  let view = null;
  let place = null;  // what is shown
  let chosen = null;  // the last place that somebody chose

  const told = (index) => {
    place = read.places[index];
    slider.value = String(index);
    const { head, lines } = read.words(place);
    slider.setAttribute("aria-valuetext", `${head}: ${lines.join("; ")}`);
    fill(words, element("span", {}, `${head}:`), element("ul", {}, lines.map((line) => element("li", {}, line))));
  };
  const marked = (seen) => {
    mark.hidden = !seen || !read;
    if (mark.hidden) return;
    const { top, height } = view;
    Object.assign(mark.style, { left: `${across(view, place)}px`, top: `${top * shrunk(view)}px`, height: `${height * shrunk(view)}px` });
  };
  const pointed = (event) => {
    if (!read) return;
    told(nearest(read.places.map((each) => across(view, each)), event.clientX - view.svg.getBoundingClientRect().left));
    chosen = place;
    marked(true);
  };
  slider.addEventListener("input", () => { if (read) { told(Number(slider.value)); chosen = place; marked(true); } });
  slider.addEventListener("change", (event) => event.stopPropagation());  // it changes no question
  for (const [name, seen] of [["focus", true], ["blur", false]]) slider.addEventListener(name, () => marked(seen));
  for (const name of ["pointermove", "pointerdown"]) host.addEventListener(name, pointed);
  host.addEventListener("pointerleave", () => marked(document.activeElement === slider));
  host.addEventListener("click", () => slider.focus({ preventScroll: true }));

  return {
    node,
    of(drawn, spec) {
      const [left, top] = drawn.origin();
      view = {
        svg: host.querySelector("svg"), left: left + drawn.padding().left, top: top + drawn.padding().top, height: drawn.height(),
        scale: drawn.scale(spec.name ? `${spec.name}_x` : "x"),
      };
      read = readings(spec);
      node.hidden = read === null;
      if (!read) return;
      slider.max = String(read.places.length - 1);
      told(nearest(read.places.map(Math.log), Math.log(chosen ?? read.first)));
      host.querySelector(".stage").append(mark);
      marked(document.activeElement === slider);
    },
  };
}

// Which of the numbers is next to `wanted`.
function nearest(numbers, wanted) {
  let found = 0;
  numbers.forEach((each, index) => { if (Math.abs(each - wanted) < Math.abs(numbers[found] - wanted)) found = index; });
  return found;
}

// Where a number of the axis is, in pixels from the left side of the picture.
const across = (view, number) => (view.left + view.scale(number)) * shrunk(view);

// How much smaller the picture is shown than it was drawn.
const shrunk = ({ svg }) => svg.getBoundingClientRect().width / Number(svg.getAttribute("width"));

// What can be read off a picture: {places, first, words(place)}; null where there is nothing.
function readings(spec) {
  const layer = spec.layer?.find((each) => /_(shares|numbers)$/.test(each.name ?? ""));
  const rows = spec.data?.values ?? [];
  if (!layer || !rows.length) return null;
  const { x, y } = layer.encoding;
  const written = layer.name.endsWith("_shares") ? percent : rounded;
  const isRate = RATES.includes(x.field);
  const places = [...new Set(rows.map((row) => row[x.field]))].sort((one, other) => one - other);
  const label = x.title.split(/ \(|:/)[0];
  const isOnly = new Set(rows.map((row) => row.series)).size === 1;
  return {
    places,
    first: isRate ? FIRST_RATE : spec.params?.find((each) => each.name === "own")?.value ?? places[Math.floor(places.length / 2)],
    words(place) {
      const here = rows.filter((row) => row[x.field] === place);
      const lines = here.slice(0, MOST_LINES).map((row) => `${isOnly ? "" : `${row.series}: `}${bounds(row, row[y.field], written)}`);
      if (here.length > MOST_LINES) lines.push(`and ${here.length - MOST_LINES} more lines, in the data of this picture`);
      return { head: `${label} ${isRate ? percent(place, { digits: EXACT }) : shortened(place)}`, lines };
    },
  };
}

// A number of the axis; a long one in few digits.
function shortened(number) {
  const text = plain(number);
  return text.length <= LONG ? text : `about ${plain(number.toPrecision(DIGITS))}`;
}

// Both bounds of a point, rounded outwards; or the one number where the picture has no other.
function bounds(row, value, written) {
  const up = { digits: DIGITS }, down = { digits: DIGITS, down: true };
  if (row.upper === undefined) return `at most ${written(value, up)}`;
  if (row.upper === null) return `about ${written(value, up)}, no bound`;
  return `at least ${written(row.lower, down)}, at most ${written(row.upper, up)}`;
}
