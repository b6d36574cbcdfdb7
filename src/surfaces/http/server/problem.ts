// An answer that says no, in the shape that OpenAI's clients read.

type ProblemDetails = { type?: string; param?: string | null; headers?: Record<string, string> };

export class Problem extends Error {
  override readonly name = "Problem";
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  /** To send with the answer. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string | null, message: string, more: ProblemDetails = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.type = more.type ?? typeOf(status);
    this.param = more.param ?? null;
    this.headers = more.headers ?? {};
  }
}

/** `message` is for people: what is wrong and what to do. `code` is for programs. */
export const problem = (status: number, code: string | null, message: string, more?: ProblemDetails): Problem =>
  new Problem(status, code, message, more);

/** What a field of the request must be, or why it cannot be given. */
export const wrongField = (param: string, needs: string, code = "invalid_input"): Problem =>
  problem(400, code, `${param}: ${needs}`, { param });

/** `what`: "run", with the code `run_not_found`. */
export const missing = (what: string, id: string): Problem =>
  problem(404, `${what}_not_found`, `There is no ${what} ${JSON.stringify(id.slice(0, 60))}.`);

/** The same, with more headers. */
export const withHeaders = ({ status, code, message, type, param, headers }: Problem, more: Problem["headers"]) =>
  problem(status, code, message, { type, param, headers: { ...headers, ...more } });

export const envelope = ({ message, type, param, code }: Problem) => ({ error: { message, type, param, code } });

const typeOf = (status: number): string => {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
};
