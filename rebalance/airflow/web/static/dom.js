// Elements without markup: text is always text, so nothing that stands in a table can become a tag.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [rule, text] of Object.entries(value)) element.style.setProperty(rule, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; children are elements or text, null is left out. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A table with a caption. Columns: {head, cell(row), number, kind, title}; a cell is text or an element. */
export function table(caption, columns, rows, attributes = {}) {
  const kind = (column) => (column.number ? "number" : column.kind ?? null);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", attributes,
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: kind(c), title: c.title }, c.head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c) => h("td", { class: kind(c), "data-label": c.head }, c.cell(row))))))));
}

/** The first rows of a long table, and a button for the rest. */
export function longTable(caption, columns, rows, first = 20) {
  const holder = h("div", {});
  const draw = (count) => {
    const shown = rows.slice(0, count);
    holder.replaceChildren(table(caption, columns, shown),
      shown.length < rows.length
        ? h("button", { class: "plain", onclick: () => draw(rows.length) }, `Show all ${rows.length} rows`) : "");
  };
  draw(first);
  return holder;
}

/** A picture's figures as a table, made only when somebody opens it. */
export function asTable(make, title = "The same as a table") {
  const details = h("details", { class: "as-table" }, h("summary", {}, title));
  details.addEventListener("toggle", () => details.open && details.children.length === 1 && details.append(make()));
  return details;
}

/** A section with a heading. */
export const section = (title, ...children) => h("section", {}, h("h2", {}, title), children);
