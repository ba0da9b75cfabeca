// How numbers are written and read. Rounding is by digits of the decimal text and away from the promise, so that what
// stands on the page is still true.

export const INFINITE = "Infinity";

// What somebody typed, as a JSON number; undefined where the field is empty, and the text itself where it is none, for
// the server to refuse with a reason.
export function typed(text) {
  const trimmed = String(text ?? "").trim();
  if (trimmed === "") return undefined;
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
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

// A probability in percent, rounded up; very small ones as "1 in ...".
export function percent(value, options) {
  if (value >= 1) return "100 %";
  const text = rounded(value, options);
  const shifted = Number(`${Number(text).toExponential().split("e")[0]}e${Number(Number(text).toExponential().split("e")[1]) + 2}`);
  return `${plain(shifted)} %`;
}

// A rate as people say it: 0.001 is "1 in 1000".
export function oneIn(value) {
  const parts = Number(value) > 0 ? Number(value).toExponential().match(/^1e-(\d+)$/) : null;
  return parts && Number(parts[1]) > 0 && Number(parts[1]) <= 9 ? `1 in ${"1" + "0".repeat(Number(parts[1]))}` : percent(Number(value), { digits: 6 });
}

export const whole = (value) => (value === null || value === undefined ? "" : value === INFINITE ? "infinite" : plain(value));
