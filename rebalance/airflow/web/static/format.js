// Numbers with their units, and times in the zone that the person has chosen in Airflow.

import { h } from "./dom.js";

const NONE = "–";
/** Whether a figure is not known. */
export const missing = (value) => value === null || value === undefined;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count or a load. */
export const count = (value) => (missing(value) ? NONE : whole.format(value));

/** A load, which may be a fraction. */
export function load(value) {
  if (missing(value)) return NONE;
  return Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(value) : value.toPrecision(3);
}

/** max/mean and other ratios: three decimals tell plans apart. */
export const ratio = (value) => (missing(value) ? NONE : value.toFixed(3));
/** How far a key without a name can change a ratio; nothing where that is not known. */
export const giveOrTake = (error) => (missing(error) ? "" : ` ± ${Number(error.toPrecision(2))}`);

export const percent = (share, digits = 1) => (missing(share) ? NONE : `${(100 * share).toFixed(digits)} %`);

/** A share that may be very small. */
export const share = (value) => (missing(value) ? NONE : value && value < 0.0001 ? "< 0.01 %" : percent(value, 2));

export function bytes(value) {
  if (missing(value)) return NONE;
  let [size, unit] = [value, "B"];
  for (const next of ["kB", "MB", "GB", "TB"]) {
    if (Math.abs(size) < 1000) break;
    [size, unit] = [size / 1000, next];
  }
  return `${unit === "B" || size >= 100 ? size.toFixed(0) : size.toPrecision(3)} ${unit}`;
}

export function seconds(value) {
  if (missing(value)) return NONE;
  if (value < 0) return `−${seconds(-value)}`;
  if (value > 0 && value < 0.1) return `${Math.max(1, Math.round(1000 * value))} ms`;
  if (value < 10) return `${value.toFixed(2)} s`;
  if (value < 120) return `${value.toFixed(1)} s`;
  const all = Math.round(value);
  return all < 7200 ? `${Math.floor(all / 60)} min ${all % 60} s` : `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
}

/** What a planner decided, as a person would say it. */
export const DECISIONS = { apply: "move keys", keep: "keep all where they are", reject: "refused" };

export const decided = (planner, decision, reason) =>
  decision === "reject" ? `The plan by ${planner ?? "the planner"} was refused: ${reason}` : `${planner ?? "The planner"} decided to ${DECISIONS[decision] ?? decision}: ${reason}`;

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** The zone that Airflow's own pages show times in, else the browser's. */
export function zone() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  try {
    const chosen = (localStorage.getItem("timezone") ?? "").replaceAll('"', "");
    return chosen && new Intl.DateTimeFormat("en", { timeZone: chosen }) ? chosen : own;
  } catch {
    return own;
  }
}

const clocks = new Map();

function parts(at, timeZone) {
  // Made once: a long table has thousands of times.
  if (!clocks.has(timeZone)) {
    clocks.set(timeZone, new Intl.DateTimeFormat("en-CA", {
      timeZone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
    }));
  }
  return Object.fromEntries(clocks.get(timeZone).formatToParts(at).map(({ type, value }) => [type, value]));
}

/** A time as text, 2026-01-31 05:00, in the person's zone or another. */
export function moment(at, timeZone = zone()) {
  if (missing(at)) return NONE;
  const p = parts(new Date(typeof at === "number" ? at * 1000 : at), timeZone);
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}`;
}

/** A time as an element: in the person's zone, with UTC under the pointer. */
export function time(at) {
  if (missing(at)) return NONE;
  const iso = new Date(typeof at === "number" ? at * 1000 : at).toISOString();
  return h("time", { datetime: iso, title: `${moment(at, "UTC")} UTC` }, moment(at));
}

/** From when to when, the day once. */
export function span(start, end) {
  const [from, to] = [moment(start), moment(end)];
  const short = from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to;
  return h("time", { datetime: start, title: `${moment(start, "UTC")} to ${moment(end, "UTC")} UTC` }, `${from} – ${short}`);
}
