/** The worker's script: an engine behind the worker's own message port. */

import { Host } from "./host.js";
import type { Endpoint, ToEngine, ToPage } from "./protocol.js";

new Host(globalThis as unknown as Endpoint<ToPage, ToEngine>);
