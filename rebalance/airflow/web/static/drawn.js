// What all pictures have in common: they know their width, and one part of them can be pointed at, by the pointer or by arrow keys.

import { h } from "./dom.js";

/** A holder that is drawn anew whenever it gets another width. */
export function drawn(draw, attributes = {}) {
  const holder = h("div", { class: "picture", ...attributes });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(holder.clientWidth);
    if (!now || now === width) return;
    width = now;
    draw(holder, now);
  }).observe(holder);
  return holder;
}

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/** Arrow keys on a focused element step through `length()` parts; `pick` gets the part, or null when the focus is gone. */
export function steppable(element, length, pick, open = () => {}) {
  let at = null;
  element.tabIndex = 0;
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && at !== null) open(at);
    const step = STEPS[event.key];
    if (step === undefined || !length()) return;
    event.preventDefault();
    at = at === null && step > -Infinity && step < Infinity ? (step > 0 ? 0 : length() - 1) : Math.max(0, Math.min(length() - 1, (at ?? 0) + step));
    pick(at);
  });
  element.addEventListener("blur", () => {
    at = null;
    pick(null);
  });
}

/** Round numbers from 0 to at least `most`. */
export function ticks(most, wanted = 5) {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * ten >= rough) * ten;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}
