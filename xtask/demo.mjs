// `npm run demo`: builds the package if its sources changed, fetches the model, and serves the page.
import path from "node:path";
import { build } from "./fresh.mjs";
import { model, nodeModules, root, toolchain } from "./machine.mjs";
import { isolate, serve } from "./serve.mjs";

toolchain();
nodeModules();
build();
const file = model();
const { origin } = await serve(
  {
    "/demo/": path.join(root, "www/dist/demo"),
    "/models/": path.dirname(file),
    "/": path.join(root, "www/dist"),
  },
  { port: Number(process.env.PORT ?? 8080), intercept: toDemo },
);
console.log(`\nDecant is at ${origin}/demo/\n(stop it with Ctrl-C)`);

function toDemo(_request, response, url) {
  isolate(response);
  if (url.pathname !== "/") return false;
  response.writeHead(302, { Location: "/demo/" }).end();
  return true;
}
