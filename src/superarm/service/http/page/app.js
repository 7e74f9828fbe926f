// The page: starts everything, and hands what people do to the part that knows about it.

import { Refusal, ask, at, hasKey, useKey } from "./api.js";
import { findPlan, findReach } from "./charging.js";
import { chooseMoment, driveIt, driveTour, paintRoads, refreshBelief, refreshTour } from "./learning.js";
import { read, written } from "./links.js";
import { RoadMap, hasWebGL } from "./map.js";
import { makeKey, noteStats, refreshOperator } from "./operator.js";
import { state } from "./state.js";
import { clearRoute, explain, exported, findRoute, place, refreshRoute, setEnd, showRoute } from "./trip.js";
import { energy } from "./units.js";
import { waterPath } from "./water.js";

const MOST_ROADS = 8000;  // in one view: two megabytes
const LARGE = 12000;
const opened = location.hash;  // the link that was followed, before the map that moves writes its own

// ---- the map

function clicked(/** @type {{ lng: number, lat: number }} */ point) {
  if (!at("start").value || (at("start").value && at("goal").value)) {
    clearRoute();
    setEnd("start", point);
  } else {
    setEnd("goal", point);
    seek();
  }
}

function hovered(/** @type {number | null} */ id, /** @type {any} */ point) {
  const road = id === null ? undefined : state.roads.get(id), tip = at("tip");
  tip.hidden = !road;
  if (!road || !point) return;
  const i = state.belief?.edge.indexOf(id) ?? -1, kilo = road.properties.length_m / 1000;
  const known = i < 0 ? "" : `: ${energy(state.belief.energy_wh[i] / kilo, { energy: "auto", length: "km" })}/km ± ${Math.round(state.belief.energy_std_wh[i] / kilo)}, measured ${state.belief.count[i]} times`;
  tip.textContent = `${road.properties.street || "Road"}${known}`;
  tip.style.transform = `translate(${Math.min(point.x + 12, at("map").clientWidth - 220)}px, ${point.y + 12}px)`;
}

/** What to ask for of a large network: what is seen, or without a map its most important roads. */
const box = () => {
  if (!state.network || state.network.edges <= LARGE) return "";
  return state.map ? `&bbox=${state.map.box().map((value) => value.toFixed(5)).join(",")}&most=${MOST_ROADS}` : `&most=${LARGE}`;
};

function setNetwork(/** @type {any} */ network) {
  state.network = network;
  state.roads = new Map(network.features.map((/** @type {any} */ road) => [road.id, road]));
}

/** @type {number | undefined} */
let waiting;
/** @type {number | undefined} */
let thirsty;
let drawn = "";

/** The water of what is seen, where the network has any; somebody's tiles show their own. */
async function refreshWater() {
  if (!state.map || !state.network?.water || state.map.background.tiles) return;
  const path = waterPath(state.map.box());
  if (path === drawn) return;
  drawn = path;
  try {
    const water = await ask("GET", path);
    if (path === drawn) state.map.showWater(water);
  } catch {
    if (path === drawn) drawn = "";  // roads are shown without; the next move asks again
  }
}

/** Another part of a large map: its roads, and what is believed of them. */
function viewed() {
  remember();
  clearTimeout(thirsty);
  thirsty = window.setTimeout(refreshWater, 250);
  if (!state.network || state.network.edges <= LARGE) return;
  clearTimeout(waiting);
  waiting = window.setTimeout(async () => {
    try {
      setNetwork(await ask("GET", `/v1/network?${box().slice(1)}`));
      state.map?.setNetwork(/** @type {any} */ (state.network));
      await refreshBelief(box());
    } catch (refusal) { explain(refusal); }
  }, 250);
}

// ---- links, units, themes

function seen() {
  const centre = state.map?.map.getCenter();
  return {
    start: place("start") || undefined, goal: place("goal") || undefined, mode: at("mode").value, vehicle: at("vehicle").value, layer: at("colour").value,
    view: centre && state.map ? [centre.lng, centre.lat, state.map.map.getZoom()] : undefined,
  };
}

function remember() {
  history.replaceState(null, "", `#${written(seen())}`);
}

/** Ask for a route; the address says which before the answer has come. */
function seek() {
  remember();
  findRoute().then(remember);
}

async function share() {
  remember();
  try {
    await navigator.clipboard.writeText(location.href);
    at("shared").textContent = "The link is copied.";
  } catch {
    at("shared").textContent = location.href;
  }
}

async function restore() {
  const before = read(opened);
  for (const [id, value] of [["mode", before.mode], ["vehicle", before.vehicle], ["colour", before.layer]]) {
    if (value && [...at(String(id)).options].some((/** @type {any} */ option) => option.value === value)) at(String(id)).value = value;
  }
  for (const which of /** @type {const} */ (["start", "goal"])) {
    const there = before[which];
    if (typeof there === "string") at(which).value = there;
    else if (there) setEnd(which, { lng: there.longitude, lat: there.latitude });
  }
  if (before.start && before.goal) await findRoute();
  else if (before.view) state.map?.map.jumpTo({ center: [before.view[0], before.view[1]], zoom: before.view[2] });
}

function setTheme(/** @type {boolean} */ dark) {
  document.documentElement.classList.toggle("dark", dark);
  at("theme").setAttribute("aria-pressed", String(dark));
  state.map?.ready.then(paintRoads);
}

function setUnits() {
  state.units = { energy: at("unit-energy").value, length: at("unit-length").value };
  localStorage.setItem("superarm-units", JSON.stringify(state.units));
  if (state.answer) showRoute(state.shown, true);
}

// ---- places by name

/** @type {number | undefined} */
let typing;

function looked(/** @type {string} */ which) {
  state.ends[which] = null;
  state.map?.pin(which, null);
  clearTimeout(typing);
  typing = window.setTimeout(async () => {
    const words = at(which).value.trim();
    if (words.length < 2) return;
    try {
      const { places } = await ask("GET", `/v1/places?q=${encodeURIComponent(words)}`);
      at("places").replaceChildren(...places.filter((/** @type {any} */ one) => one.kind !== "edge").map((/** @type {any} */ one) => {
        const option = document.createElement("option");
        option.value = one.name;
        option.label = one.kind;
        return option;
      }));
      const exact = places.find((/** @type {any} */ one) => one.name === words && one.kind !== "edge");
      if (exact) {
        state.ends[which] = { longitude: exact.longitude, latitude: exact.latitude };
        state.map?.pin(which, { lng: exact.longitude, lat: exact.latitude });
      }
    } catch { /* a name that is not found can still be an edge */ }
  }, 200);
}

// ---- what is learned

async function refreshStats() {
  const stats = await ask("GET", "/v1/stats");
  state.stats = stats;
  at("trips").textContent = stats.trips_learned.toLocaleString("en");
  at("edges").textContent = `${stats.distinct_edges.toLocaleString("en")} of ${(state.network?.edges ?? 0).toLocaleString("en")}`;
  const share = stats.calibration.coverage_90, inTime = stats.times.coverage_90;
  at("coverage").textContent = share === null ? "no trip on a route yet" : `${(100 * share).toFixed(1)} % of ${stats.calibration.trips} trips`;
  at("time-coverage").textContent = inTime === null ? "no trip was timed yet" : `${(100 * inTime).toFixed(1)} % of ${stats.times.trips} trips`;
  at("status").textContent = `${state.network?.name}${state.demo ? ", demonstration" : ""}: ${stats.trips_learned.toLocaleString("en")} trips learned`;
  noteStats(stats);
  // by how many trips what is shown was learned from: a refusal is made up for at the next look
  if (state.belief?.trips_learned !== stats.trips_learned) await refreshBelief(box());
  await refreshRoute();
}

async function watch() {
  for (;;) {
    try {
      await refreshStats();
    } catch (refusal) {
      const status = refusal instanceof Refusal ? refusal.status : 0;
      at("status").textContent = status ? /** @type {Error} */ (refusal).message : "The server does not answer; trying again…";
      if (status === 401) at("key-form").hidden = false;
    }
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 10000 : 1500));
  }
}

async function begin() {
  let settings;
  if (state.network) return;  // a new key for a page that works already
  try {
    settings = await ask("GET", "/page/settings.json");
    state.demo = settings.demo;
    if (!state.demo && !hasKey()) {
      at("status").textContent = "A key is needed.";
      at("key-form").hidden = false;
      return;
    }
    setNetwork(await ask("GET", `/v1/network?most=${LARGE}`));
  } catch (refusal) {
    const status = refusal instanceof Refusal ? refusal.status : 0;
    at("status").textContent = status === 401 ? "A key is needed." : /** @type {Error} */ (refusal).message;
    if (status === 401) at("key-form").hidden = false;
    else setTimeout(begin, 1500);
    return;
  }
  at("key-form").hidden = true;
  at("problem").textContent = "";
  if (hasWebGL()) {
    try {
      state.map = new RoadMap("map", /** @type {any} */ (state.network), settings, { click: clicked, hover: hovered, view: viewed, moved: (which, point) => { setEnd(which, point); if (place("start") && place("goal")) seek(); } });
      await state.map.ready;
      await refreshWater();
    } catch {
      state.map = null;
    }
  }
  at("no-map").hidden = state.map !== null;
  at("demo").hidden = !state.demo;
  if (state.demo) await refreshTour().catch(explain);
  state.stations = await ask("GET", "/v1/stations").catch(() => null);
  at("charging").hidden = !state.stations?.features.length;
  if (state.stations) state.map?.showStations(state.stations, []);
  state.admin = await ask("GET", "/v1/stats").then((stats) => stats.role === "admin", () => false);
  for (const id of ["tab-operator", "operator-admin"]) at(id).hidden = !state.admin;
  await refreshOperator().catch(explain);
  document.body.dataset.ready = "true";
  watch();
  await restore();
}

function choose(/** @type {string} */ tab) {
  for (const name of ["drive", "learn", "operator"]) {
    at(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
    at(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    at(`panel-${name}`).hidden = name !== tab;
  }
}

for (const name of ["drive", "learn", "operator"]) {
  at(`tab-${name}`).addEventListener("click", () => choose(name));
  at(`tab-${name}`).addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const tabs = [...at("tabs").children].filter((tab) => !tab.hidden), here = tabs.indexOf(at(`tab-${name}`));
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1 }[event.key];
    if (next === undefined) return;
    const tab = tabs[(next + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
}
at("colour").addEventListener("change", () => { paintRoads(); remember(); });
at("moment").addEventListener("input", chooseMoment);
at("vehicle").addEventListener("change", () => state.network && (state.snapshots = []) && refreshBelief(box()).catch(explain));
at("route-form").addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); seek(); });
at("clear").addEventListener("click", () => { clearRoute(); remember(); });
for (const which of ["start", "goal"]) {
  at(which).addEventListener("input", () => looked(which));
}
at("plan").addEventListener("click", findPlan);
at("reach").addEventListener("click", findReach);
at("gpx").addEventListener("click", () => exported("gpx"));
at("geojson").addEventListener("click", () => exported("geojson"));
at("share").addEventListener("click", share);
at("print").addEventListener("click", () => print());
at("drive").addEventListener("click", driveIt);
at("tour").addEventListener("click", driveTour);
at("sheet").addEventListener("click", () => {
  const open = document.body.classList.toggle("raised");
  at("sheet").setAttribute("aria-expanded", String(open));
});
at("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
for (const id of ["unit-energy", "unit-length"]) at(id).addEventListener("change", setUnits);
at("new-key").addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); makeKey().catch((refusal) => { at("operator-problem").textContent = refusal.message; }); });
at("key-form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  useKey(at("key").value.trim());
  at("key").value = "";
  at("key-form").hidden = true;
  begin();
});
try {
  const units = JSON.parse(localStorage.getItem("superarm-units") ?? "null");
  if (units && ["auto", "kwh", "per100"].includes(units.energy) && ["km", "mi"].includes(units.length)) {
    [at("unit-energy").value, at("unit-length").value] = [units.energy, units.length];
    state.units = units;
  }
} catch { /* what is stored is not ours */ }
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
begin();
