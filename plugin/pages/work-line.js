// The line to our server: each call carries the page's token, and what goes wrong is one sentence for the worker.

const UNREACHABLE = "We cannot be reached at the moment. What you wrote stays on this page, and we try again.";
const UNREADABLE = "Something failed on our side. What was stored before is safe, and we try again.";
const PATIENCE_MS = 30_000;

export class Trouble extends Error {
  constructor({error, kind, retry}) {
    super(error);
    this.kind = kind;
    this.retry = retry;
  }
}

export class Line {
  constructor(api, token) {
    this.api = api;
    this.token = token;
  }

  // The answer, or a Trouble.
  async call(method, path, body, {keepalive = false} = {}) {
    const headers = {Authorization: `Bearer ${this.token}`};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(`${this.api}${path}`, {
        method, headers, keepalive, cache: "no-store",
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
    } catch {
      throw new Trouble({error: UNREACHABLE, kind: "away", retry: true});
    }
    let answer;
    try {
      answer = await response.json();
    } catch {
      // A proxy in between speaks for a server that is away.
      throw new Trouble({error: UNREADABLE, kind: "away", retry: true});
    }
    if (!response.ok) throw new Trouble(answer);
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

// Does it until it works or fails for good; `waiting` hears of each trouble, and ends the matter by returning false.
export const untilDone = async (act, waiting) => {
  for (let round = 0; ; round += 1) {
    try {
      return await act();
    } catch (trouble) {
      if (!trouble.retry || waiting(trouble) === false) throw trouble;
      await new Promise((wake) => setTimeout(wake, WAITS_MS[Math.min(round, WAITS_MS.length - 1)]));
      if (waiting(trouble) === false) throw trouble;
    }
  }
};
