// What a program makes of the generated types: checked strictly, and run against a live server by Node.js.
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

declare const process: { argv: string[] };

const EPSILON = 4.3771780957; // of a Gaussian mechanism with mu = 1 at delta = 1e-5, in closed form

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function bounds(address: string, body: Schemas["BoundsRequest"]): Promise<Schemas["BoundsResponse"] | Schemas["Problem"]> {
  const response = await fetch(`${address}/v1/bounds`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Schemas["BoundsResponse"] | Schemas["Problem"];
}

/** The safe end of an answer in words: every kind of answer is told apart by its `type`. */
function said(answer: Schemas["Answer"]): string {
  switch (answer.type) {
    case "trade_off":
      return answer.points.map((point) => (point.power.value * 100).toFixed(2)).join(", ");
    case "gdp_mu":
      return answer.global_mu.value === "Infinity" ? "unbounded" : answer.global_mu.value.toFixed(3);
    case "epsilon":
    case "deletion_capacity":
      return answer.value === "Infinity" ? "unbounded" : answer.value.toFixed(9);
    case "unlearning_guarantee":
      return `${answer.holds}: ${answer.value.toFixed(3)}`;
    default: {
      const probability: number = answer.value; // never a word
      return probability.toFixed(6);
    }
  }
}

const address = process.argv[2] ?? "";
const key = process.argv[3] ?? "";
const both: Schemas["Direction"] = "both";
const found = await bounds(address, {
  mechanism: { type: "repeated", steps: 100, mechanism: { type: "gaussian", noise_multiplier: 10 } },
  questions: [
    { type: "epsilon", delta: 1e-5, direction: both },
    { type: "epsilon", delta: 0 },
    { type: "trade_off", false_positive_rates: [0.001] },
    { type: "gdp_mu" },
    { type: "advantage" },
  ],
});
check("answers" in found, "no answers");
const [epsilon, infinite] = found.answers;
check(epsilon?.type === "epsilon", "the answer has another type than its question");
check(epsilon.value !== "Infinity" && Math.abs(epsilon.value - EPSILON) < 1e-6, "another epsilon");
check(epsilon.question.type === "epsilon" && epsilon.question.direction === "both", "another direction");
check(infinite !== undefined && said(infinite) === "unbounded", "epsilon at delta 0 is infinite");
check(found.answers.map(said).length === 5, "an answer is missing");
check(found.method === "auto" && found.relative_tolerance === 1e-6, "the options are not said again");

const refused = await bounds(address, { mechanism: { type: "gdp", mu: -1 }, questions: [{ type: "advantage" }] });
check("errors" in refused && refused.type === "/problems/invalid-request", "not refused");
check(refused.errors[0]?.pointer === "/mechanism/mu", "another place");
