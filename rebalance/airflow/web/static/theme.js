// Light or dark: as Airflow's own window is, and without it as the system says.

const system = matchMedia("(prefers-color-scheme: dark)");

function airflowsRoot() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null;
  }
}

/** Keep the page in the theme, and call `changed` whenever that is another one. */
export function followTheme(changed) {
  const root = airflowsRoot();
  const isDark = () => (root ? root.classList.contains("dark") : system.matches);
  const apply = () => {
    const wanted = isDark() ? "dark" : "light";
    if (document.documentElement.dataset.theme === wanted) return;
    document.documentElement.dataset.theme = wanted;
    changed();
  };
  if (root) new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["class"] });
  else system.addEventListener("change", apply);
  apply();
}

/** A colour of the style sheet, for what is drawn on a canvas. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
