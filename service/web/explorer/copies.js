// What can be taken along: a command, a script, parameters for MLflow, a model card, a link.

import { ask } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { save } from "./files.js";
import { revisionNow } from "./phase.js";
import { linkOf } from "./state.js";

const FORMS = { card: "text/markdown", mlflow: "application/vnd.mlflow.run+json" };
const SAID = {
  sentence: "Copied: one sentence about this run.",
  paragraph: "Copied: one paragraph about this run.",
  card: "Copied: a section for a model card, in Markdown.",
  mlflow: "Copied: parameters, metrics and tags for MLflow, as JSON.",
  curl: "Copied: a command that sends this request.",
  python: "Copied: a script that sends this request.",
  link: "Copied: a link that opens this page as it is.",
};

// The text of a kind, and what to say about it. `answered`: {body, response} of the answer that stands on the page.
async function textOf(kind, answered, state) {
  if (kind === "link") {
    const link = linkOf(state);
    if (!link) throw new Error("The pasted text is too long for a link. Copy the command instead.");
    return [new URL(link, location.href).href, SAID.link];
  }
  const { body, response } = answered;
  if (kind === "sentence" || kind === "paragraph") return [response.summary[kind], SAID[kind]];
  if (kind === "curl") return [curl(body), SAID.curl];
  if (kind === "python") return [python(body), SAID.python];
  const text = await ask("/v1/assessments", body, { accept: FORMS[kind] });
  return [typeof text === "string" ? text : JSON.stringify(text, null, 2), SAID[kind]];
}

// The report as a file: {name, html}.
async function reportOf({ body }) {
  const html = await ask("/v1/assessments", body, { accept: "text/html" });
  if (!/^\s*<!doctype html/i.test(html)) throw new Error("This server does not create reports.");
  return { name: fileName(body.context), html };
}

// A name for a file, of letters, digits and hyphens alone.
function fileName({ subject, date }) {
  const parts = ["privacy-report", subject?.name, subject?.version, date].map((each) => String(each ?? "").normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60));
  return `${parts.filter((each) => each !== "").join("-")}.html`;
}

const address = () => `${location.origin}/v1/assessments`;

function curl(body) {
  const json = JSON.stringify(body, null, 1).replaceAll("'", "\\u0027");
  return `curl -s ${address()} -H 'Content-Type: application/json' -d '\n${json}'\n`;
}

function python(body) {
  const json = JSON.stringify(JSON.stringify(body));  // a literal of JSON is one of Python, too
  return `import json\nimport urllib.request\n\nbody = json.loads(${json})\nrequest = urllib.request.Request(\n    "${address()}", json.dumps(body).encode(), {"Content-Type": "application/json"}\n)\nwith urllib.request.urlopen(request) as response:\n    answer = json.load(response)\nprint(answer["statement"])\n`;
}

// Into the clipboard; false where the browser does not allow it, and the text has to be shown.
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

let copies = 0;  // how many were asked for

export function forgetCopies() {
  copies += 1;
  byId("copied").textContent = "";
  byId("copied-text").hidden = true;
}

// Copy or save something of the answer, and say so. Of two that are under way the later one counts; an answer to a form
// that has changed meanwhile is not taken along.
export async function take(kind, answered, state) {
  forgetCopies();
  const mine = copies;
  const revision = revisionNow();
  try {
    const made = kind === "report" ? await reportOf(answered) : await textOf(kind, answered, state);
    if (mine !== copies || revision !== revisionNow()) return;
    if (kind === "report") {
      save(made.name, "text/html", made.html);
      byId("copied").textContent = `Saved: ${made.name}. Open it to print it.`;
      return;
    }
    const [text, said] = made;
    const isCopied = await toClipboard(text);
    if (mine !== copies) return;
    byId("copied").textContent = isCopied ? said : "The browser does not allow copying. The text is below the answer.";
    if (!isCopied) offer(text);
  } catch (error) {
    if (mine === copies) byId("copied").textContent = error.message;
  }
}

function offer(text) {
  const shown = element("textarea", { rows: "8", readonly: true, "aria-label": "Text to copy" });
  shown.value = text;
  fill(byId("copied-text"), shown);
  byId("copied-text").hidden = false;
  shown.select();
}
