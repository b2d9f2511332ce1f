// Where everything is: places of this page, and Airflow's own pages.

import { h } from "./dom.js";

const e = encodeURIComponent;

export const HOME = "#/";
export const toPipeline = (dagId) => `#/dag/${e(dagId)}`;
export const toInterval = (dagId, id) => `#/dag/${e(dagId)}/interval/${e(id)}`;
export const toKey = (dagId, key) => `#/dag/${e(dagId)}/key/${e(key)}`;
export const toTrial = (dagId) => `#/dag/${e(dagId)}/try`;
export const toDocs = (dagId) => `docs/${e(dagId)}/`;

/** The place that an address names: its parts, decoded. */
export function placeOf(hash) {
  const part = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  const [, first, dagId, kind, name] = hash.split("/").map(part);
  return first === "dag" && dagId ? { dagId, kind: kind || null, name: name ?? "" } : { dagId: null, kind: null, name: "" };
}

/** A link to one of Airflow's own pages. In its frame the page may not leave by itself, so Airflow's window is asked to go. */
export function airflowLink(text, ...path) {
  const go = (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const link = window.parent.document.createElement("a");
    link.href = event.currentTarget.href;
    link.click();
  };
  return h("a", { href: `../${path.map(e).join("/")}`, onclick: go }, text);
}

export const runLink = (text, dagId, runId) => airflowLink(text, "dags", dagId, "runs", runId);
