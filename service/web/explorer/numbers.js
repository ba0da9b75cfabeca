// How numbers are written and read. Rounding is by digits of the decimal text and away from the promise, so that what
// stands on the page is still true.

export const INFINITE = "Infinity";
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const GROUPED = /^[+-]?\d{1,3}(\.\d{3})+$/;

// What somebody typed, as a JSON number; undefined where the field is empty, and the text itself where it is none, for
// the server to refuse.
export function typed(text) {
  const trimmed = String(text ?? "").trim();
  if (trimmed === "") return undefined;
  return NUMBER.test(trimmed) ? Number(trimmed) : trimmed;
}

// The same for a whole number. "60.000" is text there: whoever groups digits by points means sixty thousand.
export function typedWhole(text) {
  const trimmed = String(text ?? "").trim();
  return GROUPED.test(trimmed) ? trimmed : typed(trimmed);
}

// A number with so many digits, rounded up (or down) where it has more.
export function rounded(value, { digits = 3, down = false } = {}) {
  if (value === INFINITE || value === Infinity) return "infinite";
  if (value === null || value === undefined) return "";
  if (value === 0) return "0";
  const near = value.toPrecision(digits);
  const isSafe = down ? Number(near) <= value : Number(near) >= value;
  return plain(isSafe ? near : neighbour(near, !down));
}

// The next larger (or smaller) positive decimal with as many digits.
function neighbour(text, up) {
  const [mantissa, exponent = "0"] = text.split("e");
  const point = mantissa.indexOf(".");
  const decimals = point < 0 ? 0 : mantissa.length - point - 1;
  const moved = BigInt(mantissa.replace(".", "")) + (up ? 1n : -1n);
  return `${moved}e${Number(exponent) - decimals}`;
}

// 0.00407 rather than 4.07e-3, but 1e-6; no zeros at the end.
export function plain(number) {
  const value = Number(number);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential().replace("e+", "e");
  return value.toLocaleString("en", { maximumSignificantDigits: 17, useGrouping: false });
}

// A bound on a share, in percent, rounded to the safe side.
export function percent(value, options) {
  if (value >= 1) return "100\u00a0%";
  if (value === 0) return "0\u00a0%";
  return `${shifted(rounded(value, options))}\u00a0%`;
}

// A share that was typed, in percent, with all its digits: rounding it either way would change the question.
export const givenPercent = (value) => (Number(value) === 0 ? "0\u00a0%" : `${shifted(value)}\u00a0%`);

// A hundred times a decimal, by moving its exponent.
function shifted(decimal) {
  const [mantissa, exponent] = Number(decimal).toExponential().split("e");
  return plain(Number(`${mantissa}e${Number(exponent) + 2}`));
}

export const whole = (value) => (value === null || value === undefined ? "" : value === INFINITE ? "infinite" : plain(value));
