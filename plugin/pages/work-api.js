// The calls to our server: each carries the page's token and the browser's key, and fails with one sentence for the
// worker.

import {gettext, pageLanguage} from "./translation.js";

const UNREACHABLE = gettext("We cannot be reached at the moment. What you wrote stays on this page, and we try again.");
const UNREADABLE = gettext("Something failed on our side. What was stored before is safe, and we try again.");
const TIMEOUT_MS = 30_000;

export class ApiError extends Error {
  constructor({error, kind, retry, code = "", hint = null}) {
    super(error);
    Object.assign(this, {kind, retry, code, hint});
  }
}

export class ApiClient {
  constructor(api, token, browser) {
    this.api = api;
    this.token = token;
    this.browser = browser;
  }

  // Returns the response's JSON, or throws an ApiError.
  async call(method, path, body, {keepalive = false} = {}) {
    const headers = {
      Authorization: `Bearer ${this.token}`, "X-Outfox-Browser": this.browser,
      // Errors and verdicts come in the language of the page.
      "Accept-Language": pageLanguage,
    };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(`${this.api}${path}`, {
        method, headers, keepalive, cache: "no-store",
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch {
      throw new ApiError({error: UNREACHABLE, kind: "away", retry: true});
    }
    let answer;
    try {
      answer = await response.json();
    } catch {
      // A proxy answers for a server that is not reachable.
      throw new ApiError({error: UNREADABLE, kind: "away", retry: true});
    }
    if (!response.ok) throw new ApiError(answer);
    return answer;
  }

  get(path) {
    return this.call("GET", path);
  }

  post(path, body = {}, options = {}) {
    return this.call("POST", path, body, options);
  }

  put(path, body) {
    return this.call("PUT", path, body);
  }
}

const WAITS_MS = [1_000, 2_000, 3_000, 5_000];

// Calls `act` until it succeeds or fails for good; `waiting` gets each error, and stops the retries by returning false.
export const retryUntilDone = async (act, waiting) => {
  for (let round = 0; ; round += 1) {
    try {
      return await act();
    } catch (error) {
      if (!error.retry || waiting(error) === false) throw error;
      await new Promise((wake) => setTimeout(wake, WAITS_MS[Math.min(round, WAITS_MS.length - 1)]));
      if (waiting(error) === false) throw error;
    }
  }
};
