/** Light, dark, or as the system says; the choice is remembered on this device. */

import { byId, setText } from "./dom.js";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const KEY = "decant-demo-theme";

/** Wires the theme button. index.html has already applied the remembered theme, before the first paint. */
export function initTheme(): void {
  const button = byId<HTMLButtonElement>("theme");
  let theme: Theme =
    THEMES.find((name) => name === document.documentElement.dataset["theme"]) ?? "auto";
  const draw = () => {
    document.documentElement.dataset["theme"] = theme;
    setText(byId("theme-name"), theme);
    button.setAttribute("aria-label", `Theme: ${theme}. Change`);
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A page that may not store things still has a theme until it is closed.
    }
    draw();
  });
  draw();
}
