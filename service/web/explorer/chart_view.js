// Views of Vega: pictures that are drawn without eval, that load nothing, and that are as wide as there is room.

const CHARACTER = 7.2;  // pixels of a letter of a legend, in a wide font
const SYMBOL = 44;  // pixels of a stroke in a legend, with the space beside it
// A space that may become a line break: none before a percent sign, and none inside a number such as 60 000.
const BREAK = / (?!%)(?!(?<=\d )\d{3}(?!\d))/;
// Specs hold their data: nothing is ever loaded by one.
const loader = {
  load: () => Promise.reject(new Error("pictures load nothing")),
  sanitize: () => Promise.reject(new Error("pictures link nowhere")),
};
const quiet = { level() { return this; }, error(...told) { console.error(...told); return this; }, warn() { return this; }, info() { return this; }, debug() { return this; } };

// A view of a spec, not drawn yet; `options` are those of vega.View.
export function viewOf(spec, options) {
  const compiled = window.vegaLite.compile(spec, { logger: quiet }).spec;
  return new window.vega.View(window.vega.parse(compiled, null, { ast: true }), { expr: window.vega.expressionInterpreter, loader, logger: quiet, ...options });
}

// The spec for the page: as wide as there is room, with short lines in its legend. Values are read below the picture, so
// that there are no tooltips.
export function sized(spec, width) {
  const names = namesOf(spec);
  const lines = names.map((name) => lined(name, Math.floor((width - SYMBOL) / CHARACTER)));
  return {
    ...spec,
    ...("width" in spec && { width }),
    ...(spec.layer && { layer: spec.layer.map((each) => ({ ...each, ...(each.encoding && { encoding: encoded(each.encoding) }) })) }),
    params: [...(spec.params ?? []), { name: "legend_lines", value: lines }],
  };
}

// The fields of an encoding without its tooltip, each legend in lines.
function encoded({ tooltip, ...encoding }) {
  return Object.fromEntries(Object.entries(encoding).map(([channel, given]) => [channel,
    given.scale?.domain && given.field === "series" && given.legend !== null ? { ...given, legend: { ...given.legend, labelExpr: "legend_lines[datum.index]" } } : given]));
}

const namesOf = (spec) => spec.layer?.map((each) => each.encoding?.color?.scale?.domain).find(Boolean) ?? [];

// A name in lines of so many characters at most, broken between words; a word that is longer than a line, anywhere.
function lined(name, longest) {
  const words = name.split(BREAK).flatMap((word) => (word.length <= longest ? [word] : word.match(new RegExp(`.{1,${longest}}`, "gsu"))));
  const lines = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= longest) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
