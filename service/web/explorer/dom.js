// Elements are made of names, properties and text. Nothing here, or anywhere on the page, reads text as HTML.

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function fill(host, ...children) {
  host.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

// A table of texts. `numeric`: from which column on cells are numbers.
export function table(caption, heads, rows, numeric = 1) {
  const align = (index) => (index >= numeric ? "number" : undefined);
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads.map((head, index) => element("th", { scope: "col", class: align(index) }, head)))),
      element(
        "tbody",
        {},
        rows.map((row) =>
          element(
            "tr",
            {},
            row.map((cell, index) => (index === 0 && numeric > 0 ? element("th", { scope: "row" }, cell) : element("td", { class: align(index) }, cell))),
          ),
        ),
      ),
    ),
  );
}
