/** Making elements, without a framework: one function that builds and one that finds. */

type Properties<K extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[K], "attributes">
> & {
  /** Attributes that have no property of the same name (`aria-*`, `data-*`, `for`). */
  attributes?: Record<string, string>;
};

/** An element with properties and children; strings become text nodes, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<K> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const { attributes, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The element of index.html with this id. A missing one is a defect of the page, so it throws. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no element with the id "${id}"`);
  return found as T;
}

/** Writes text only where it differs, so that an unchanged readout causes no layout. */
export function setText(target: Node, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}
