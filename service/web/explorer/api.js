// Requests to the server. Every failure is an ApiError with a sentence for the user.

export const SPEC = "application/vnd.vegalite.v5+json";

let key = "";
export const setKey = (given) => { key = given.trim(); };

export class ApiError extends Error {
  constructor(words, { errors = [], status = 0, retry = null, requestId = null, detail = "", type = "" } = {}) {
    super(words);
    Object.assign(this, { errors, status, retry, requestId, detail, type });
  }

  // Whether a job, which may take longer, could have the answer.
  get isTooLong() { return TOO_LONG.has(this.type); }
}

const TOO_LONG = new Set(["/problems/out-of-time", "/problems/compute-budget-exceeded"]);

// The answer to a POST, as an object or, for other forms, as text. Raises ApiError; AbortError where it was given up.
export async function ask(path, body, { accept = "application/json", signal, prefer } = {}) {
  const headers = { "Content-Type": "application/json", Accept: accept, ...(prefer ? { Prefer: prefer } : {}) };
  const response = await sent(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  return read(response, accept.endsWith("json"));
}

const ENDED = new Set(["succeeded", "failed", "cancelled"]);
const LOOKED_AFTER_MS = 1000;

// POST a request, and submit it as a job if it exceeds the time limit of the server. The job is followed to its
// end. onProgress(seconds) is called while it runs. Aborting the request cancels the job.
export async function postWithJobFallback(path, body, { signal, onProgress }) {
  try {
    return await ask(path, body, { signal });
  } catch (error) {
    if (!(error instanceof ApiError && error.isTooLong)) throw error;
  }
  onProgress(0);
  let job = await ask(path, body, { signal, prefer: "respond-async" });
  if (!job.id || !job.state) return job;  // it was there in the meantime
  const place = `/v1/jobs/${encodeURIComponent(job.id)}`;
  const giveUp = () => { sent(place, { method: "DELETE" }).catch(() => {}); };
  signal?.addEventListener("abort", giveUp, { once: true });
  try {
    const since = performance.now();
    while (!ENDED.has(job.state)) {
      await pause(LOOKED_AFTER_MS, signal);
      job = await read(await sent(place, { signal }), true);
      onProgress(Math.round((performance.now() - since) / 1000));
    }
    if (job.state === "cancelled") throw new ApiError("The job for this was ended before it had an answer.", { retry: 1 });
    const results = await read(await sent(`${place}/results`, { signal }), true);
    const [point] = results.points;
    if (!point?.response) throw errorIn(point?.problem ?? job.problem ?? {});
    return point.response;
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

// A response that is no refusal.
async function sent(path, { headers = {}, ...rest }) {
  const given = { ...headers };
  if (key) {
    if (!/^[\x21-\x7e]+$/.test(key)) throw new ApiError("The API key has characters that no key can have, such as spaces or accents. Please look at it again.");
    given.Authorization = `Bearer ${key}`;
  }
  let response;
  try {
    response = await fetch(path, { headers: given, credentials: "same-origin", ...rest });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached. Perhaps it was stopped, or the connection is gone. Nothing you typed is lost: try again when it is back.", { retry: 5 });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function read(response, isJson) {
  try {
    return isJson ? await response.json() : await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The answer of the server broke off, or is not what this page expects. Nothing you typed is lost: try again.", { retry: 5 });
  }
}

async function errorOf(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    problem = {};  // a proxy in between, perhaps, that speaks HTML
  }
  const after = Number(response.headers.get("Retry-After"));
  return errorIn(problem, { status: response.status, retry: Number.isFinite(after) && after > 0 ? after : null, requestId: response.headers.get("X-Request-ID") });
}

function errorIn(problem, { status = Number(problem.status) || 500, retry = null, requestId = null } = {}) {
  const text = (name) => (typeof problem?.[name] === "string" ? problem[name] : "");
  const errors = (Array.isArray(problem?.errors) ? problem.errors : [])
    .filter((each) => each && typeof each.detail === "string")
    .map((each) => ({ pointer: String(each.pointer ?? ""), detail: each.detail }));
  const words = inWords(status, text("title"), retry);
  return new ApiError(words, { errors, status, retry, requestId: text("request_id") || requestId, detail: text("detail"), type: text("type") });
}

function inWords(status, title, retry) {
  const later = retry ? `Try again in ${retry} second${retry === 1 ? "" : "s"}.` : "Try again in a moment.";
  switch (status) {
    case 401: return "The server asks for an API key, or does not accept the one that was sent. The field for it is under Connection.";
    case 403: return "The server knows who asks, and does not allow it. A key with more rights, under Connection, may help.";
    case 404: return "The server has nothing at this address: it may be an older version that does not know this question.";
    case 406: case 415: return "The server does not offer this form of an answer.";
    case 413: return "What was sent is longer than the server takes.";
    case 422: return "The server cannot answer this as it is. What to change stands beside the field.";
    case 429: return `Too many requests were sent in a short time. ${later}`;
    case 502: return `A gateway in front of the service got no answer from it. ${later}`;
    case 503: return `The server is busy, or not ready yet. ${later}`;
    case 504: return "The computation took longer than the server allows. A run with fewer phases, or a question less, may be answered.";
    default:
      if (status >= 500) return `The server failed at this (${status}${title ? `: ${title}` : ""}). Nothing you typed is lost.`;
      return `The server refused this (${status}${title ? `: ${title}` : ""}).`;
  }
}
