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
    if (job.state === "cancelled") throw new ApiError("The job was cancelled before it had an answer.", { retry: 1 });
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
    if (!/^[\x21-\x7e]+$/.test(key)) throw new ApiError("The API key contains characters that no key can have, such as spaces or accents. Check the key.");
    given.Authorization = `Bearer ${key}`;
  }
  let response;
  try {
    response = await fetch(path, { headers: given, credentials: "same-origin", ...rest });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached. It may have stopped, or the connection may be lost. Your input is kept: try again later.", { retry: 5 });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function read(response, isJson) {
  try {
    return isJson ? await response.json() : await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The answer of the server was incomplete or unexpected. Your input is kept: try again.", { retry: 5 });
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
    case 401: return "The server requires a valid API key. Enter a key under Connection.";
    case 403: return "The API key does not allow this request. Enter a key with more rights under Connection.";
    case 404: return "The server does not support this request. It may be an older version.";
    case 406: case 415: return "The server does not support this format.";
    case 413: return "The request is longer than the server allows.";
    case 422: return "The server cannot answer this request. The fields to change are marked.";
    case 429: return `Too many requests were sent in a short time. ${later}`;
    case 502: return `The gateway received no answer from the service. ${later}`;
    case 503: return `The server is busy, or not ready yet. ${later}`;
    case 504: return "The computation exceeded the time limit of the server. Try a run with fewer phases, or fewer attackers.";
    default:
      if (status >= 500) return `The server failed (${status}${title ? `: ${title}` : ""}). Your input is kept.`;
      return `The server rejected the request (${status}${title ? `: ${title}` : ""}).`;
  }
}
