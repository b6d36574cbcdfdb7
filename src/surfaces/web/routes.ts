// The console's own routes: its files, and who is signed in. All else that it shows and does goes over the routes of the API.
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import { problem } from "../http/server/problem.ts";
import {
  type Gives,
  list,
  ok,
  type Route,
  type RouteAnswer,
  type RouteCall,
  routeTagged,
  streamed,
} from "../http/server/route.ts";
import { type ConsoleFile, readConsole } from "./files.ts";
import { cookieName, type SignIn, type SignIns } from "./sign-ins.ts";

const route = routeTagged("console");

/** What models, tools and names say can reach no other host, whatever it becomes. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join("; ");
const HTML = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "no-cache",
};
const UNBUILT = `<!doctype html><html lang="en"><title>hermes</title>
<p>The console is not built. Run <code>npm run build</code> in the folder of hermes, then restart it.</p></html>`;
const LIFE_S = 30 * 86_400;

export function consoleRoutes(signIns: SignIns): Route[] {
  const files = new Map(readConsole().map((file) => [file.name, file]));
  const page = files.get("index.html");

  /** The page names its files with their digests, so a copy of one never grows old. */
  const file = (name: string, gives: Gives) =>
    route("GET", `/console/${name}`, {
      access: "open",
      summary: `The web console: ${name}`,
      answers: { 200: "The file", 404: "The console is not built" },
      gives,
      handle(call) {
        const found = files.get(name);
        if (!found) throw problem(404, "console_not_built", "The console is not built: run `npm run build`.");
        return send(found, call, { "Cache-Control": "public, max-age=31536000, immutable" });
      },
    });

  async function begin(headers: IncomingHttpHeaders): Promise<RouteAnswer> {
    const { host = "", origin = "" } = headers;
    const { signIn, cookie, token } = await signIns.begin(headers["user-agent"] ?? "");
    const secure = origin.startsWith("https:") ? "; Secure" : "";
    const set = `${cookieName(host)}=${cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${LIFE_S}${secure}`;
    return { status: 201, body: { ...shown(signIn), token }, headers: { "Set-Cookie": set } };
  }

  return [
    route("GET", "/", {
      access: "open",
      summary: "The web console",
      answers: { 200: "A page" },
      gives: "text/html",
      handle: (call) => (page ? send(page, call, HTML) : { status: 200, body: UNBUILT, headers: HTML }),
    }),
    file("app.js", "text/javascript"),
    file("app.css", "text/css"),
    route("POST", "/api/sign-ins", {
      summary:
        "Sign a browser in with the key: sets its cookie and gives the token that it must send as X-Hermes-Token",
      answers: { 201: "The sign-in and its token" },
      handle: ({ headers }) => begin(headers),
    }),
    route("POST", "/api/sign-ins/code", {
      access: "open",
      summary: "Sign a browser in with a one-time code",
      body: z.strictObject({ code: z.string().max(200).describe("The code of the link") }),
      answers: { 201: "The sign-in and its token", 403: "The code was used already, or is too old" },
      handle({ body: { code }, headers }) {
        if (!signIns.useCode(code))
          throw problem(403, "invalid_code", "This link was used already, or is too old. Run `hermes web` again.");
        return begin(headers);
      },
    }),
    route("POST", "/api/sign-ins/codes", {
      summary: "Create a code that signs in one browser; it is valid for two minutes",
      answers: { 201: "The code" },
      handle: () => ({ status: 201, body: { code: signIns.newCode() } }),
    }),
    route("GET", "/api/sign-ins", {
      summary: "List the browsers that are signed in",
      answers: { 200: "The list" },
      handle({ headers }) {
        const own = signIns.of(headers)?.id;
        return list(signIns.list().map((one) => ({ ...shown(one), current: one.id === own })));
      },
    }),
    route("DELETE", "/api/sign-ins/:id", {
      summary: "Sign a browser out",
      answers: { 200: "Signed out", 404: "No browser with this id is signed in" },
      async handle({ params: { id = "" }, request }) {
        if (!(await signIns.revoke(id, request.socket)))
          throw problem(404, "sign_in_not_found", "That browser is not signed in.");
        return ok({ id, deleted: true });
      },
    }),
  ];
}

const shown = ({ id, at, until, agent }: SignIn) => ({
  id,
  object: "hermes.sign_in",
  created_at: at / 1_000,
  expires_at: until / 1_000,
  agent,
});

function send({ type, plain, br }: ConsoleFile, call: RouteCall<unknown>, more: Record<string, string>): RouteAnswer {
  const { headers: asked, response } = call;
  const packed = br && /\bbr\b/.test(asked["accept-encoding"] ?? "") ? br : null;
  const headers = { "Content-Type": type, Vary: "Accept-Encoding", ...more };
  const encoding = packed ? { "Content-Encoding": "br" } : {};
  const body = packed ?? plain;
  response.writeHead(200, { ...headers, ...encoding, "Content-Length": body.length }).end(body);
  return streamed;
}
