// What can be taken along: a command, a script, parameters for MLflow, a model card, a link.

import { ask } from "./api.js";
import { linkOf } from "./state.js";

const FORMS = { card: "text/markdown", mlflow: "application/vnd.mlflow.run+json" };
const SAID = {
  card: "Copied: a section for a model card, in Markdown.",
  mlflow: "Copied: parameters, metrics and tags for MLflow, as JSON.",
  curl: "Copied: a command that asks the same.",
  python: "Copied: a script that asks the same.",
  link: "Copied: a link that opens this page as it is.",
};

// The text of a kind, and what to say about it.
export async function textOf(kind, body, state) {
  if (kind === "link") {
    const link = linkOf(state);
    if (!link) throw new Error("What was pasted is too long for a link. Copy the command instead.");
    return [new URL(link, location.href).href, SAID.link];
  }
  if (kind === "curl") return [curl(body), SAID.curl];
  if (kind === "python") return [python(body), SAID.python];
  const text = await ask("/v1/assessments", body, { accept: FORMS[kind] });
  return [typeof text === "string" ? text : JSON.stringify(text, null, 2), SAID[kind]];
}

const address = () => `${location.origin}/v1/assessments`;

export function curl(body) {
  const json = JSON.stringify(body, null, 1).replaceAll("'", "\\u0027");
  return `curl -s ${address()} -H 'Content-Type: application/json' -d '\n${json}'\n`;
}

export function python(body) {
  const json = JSON.stringify(JSON.stringify(body));  // a literal of JSON is one of Python, too
  return `import json\nimport urllib.request\n\nbody = json.loads(${json})\nrequest = urllib.request.Request(\n    "${address()}", json.dumps(body).encode(), {"Content-Type": "application/json"}\n)\nwith urllib.request.urlopen(request) as response:\n    answer = json.load(response)\nprint(answer["statement"])\n`;
}

// Into the clipboard; false where the browser does not allow it, and the text has to be shown.
export async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
