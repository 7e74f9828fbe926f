// An operator's view: how it is doing, whose trips are believed, what was put aside.

import { ask, at } from "./api.js";
import { state } from "./state.js";
import { number, percent } from "./units.js";

/** @type {{ at: number, trips: number }[]} */
const seen = [];

/** @param {string} tag @param {string} text */
function cell(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

/** @param {string} label @param {() => Promise<unknown>} act */
function button(label, act) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", async () => {
    element.disabled = true;
    try {
      await act();
      at("operator-problem").textContent = "";
    } catch (refusal) {
      at("operator-problem").textContent = refusal instanceof Error ? refusal.message : String(refusal);
    }
    element.disabled = false;
    await refreshOperator();
  });
  return element;
}

const share = (/** @type {number | null} */ value) => (value === null ? "–" : percent(value, 1));
const ratio = (/** @type {number | null} */ value) => (value === null ? "–" : number(value, 2));

/** @param {any} stats */
export function noteStats(stats) {
  seen.push({ at: Date.now(), trips: stats.trips });
  while (seen.length > 2 && seen[0].at < Date.now() - 3600e3) seen.shift();
  const first = seen[0], hours = (Date.now() - first.at) / 3600e3;
  at("per-hour").textContent = hours > 0.002 ? Math.round((stats.trips - first.trips) / hours).toLocaleString("en") : "–";
  at("waiting").textContent = Math.max(stats.trips - stats.trips_learned, 0).toLocaleString("en");
  at("lag").textContent = `${stats.lag_s.toFixed(1)} s`;
  at("aside").textContent = stats.quarantined.toLocaleString("en");
  at("alarms").replaceChildren(...stats.alarms.map((/** @type {any} */ alarm) => cell("li", `${alarm.kind}: ${alarm.reason}`)));
  at("no-alarm").hidden = stats.alarms.length > 0;
  const rows = [
    ...Object.entries(stats.vehicles).map(([name, one]) => [name, /** @type {any} */ (one), stats.times]),
    ...stats.keys.map((/** @type {any} */ key) => [`key ${key.key}`, key.calibration, key.times]),
  ];
  at("calibrations").replaceChildren(...rows.map(([name, one, times]) => {
    const row = document.createElement("tr");
    row.append(cell("th", name), cell("td", String(one.trips)), cell("td", share(one.coverage_90)), cell("td", ratio(one.energy_ratio)), cell("td", share(times.coverage_90)));
    row.querySelector("th")?.setAttribute("scope", "row");
    return row;
  }));
}

export async function refreshOperator() {
  if (!state.admin) return;
  const [{ trips }, { keys }] = await Promise.all([ask("GET", "/v1/quarantine?limit=20"), ask("GET", "/v1/keys")]);
  at("quarantine").replaceChildren(...trips.map((/** @type {any} */ trip) => {
    const item = document.createElement("li");
    item.append(cell("p", `${trip.trip_id}, key ${trip.key}: ${trip.reason}`));
    item.append(button(`Learn ${trip.trip_id}`, () => ask("POST", `/v1/quarantine/${trip.sequence}/release`)));
    item.append(button(`Drop ${trip.trip_id}`, () => ask("DELETE", `/v1/quarantine/${trip.sequence}`)));
    return item;
  }));
  at("no-quarantine").hidden = trips.length > 0;
  at("keys").replaceChildren(...keys.filter((/** @type {any} */ key) => !key.revoked_at).map((/** @type {any} */ key) => {
    const item = document.createElement("li");
    item.append(cell("p", `${key.name}: ${key.role}${key.trusted ? "" : `, set aside: ${key.reason}`}`));
    if (!key.trusted) item.append(button(`Trust ${key.name}`, () => ask("POST", `/v1/keys/${key.id}/trust`)));
    item.append(button(`Revoke ${key.name}`, () => ask("DELETE", `/v1/keys/${key.id}`)));
    return item;
  }));
}

export async function makeKey() {
  const made = await ask("POST", "/v1/keys", { name: at("key-name").value.trim(), role: at("key-role").value });
  at("made-key").textContent = `Shown this once: ${made.key}`;
  at("key-name").value = "";
  await refreshOperator();
}
