// The page: asks for routes, shows them and what is learned. All numbers come from the API.

import { drawCalibration, drawFront, drawProfile, drawRegret, frontName } from "/page/charts.js";
import { RoadMap, hasWebGL, ramp } from "/page/map.js";

const at = (id) => document.getElementById(id);
const state = { network: null, belief: null, map: null, ends: {}, answer: null, front: [], demo: false, learned: -1, trips: [] };

class Refusal extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

async function ask(method, path, body) {
  const headers = {};
  const key = sessionStorage.getItem("superarm-key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, content.detail ?? `error ${answer.status}`);
  return content;
}

// ---- roads and colours

const LAYERS = {
  energy: {
    unit: "Wh/km",
    value: (edge, i) => state.belief.energy_wh[i] / (edge.length_m / 1000),
  },
  uncertainty: {
    unit: "± Wh/km",
    value: (edge, i) => state.belief.energy_std_wh[i] / (edge.length_m / 1000),
  },
  visits: { unit: "visits", value: (_, i) => Math.log1p(state.belief.count[i]), shown: (v) => Math.round(Math.expm1(v)) },
  height: { unit: "m", value: (edge) => (edge.start_height_m + edge.end_height_m) / 2 },
};

function paintRoads() {
  if (!state.network || !state.belief) return;
  const layer = LAYERS[at("colour").value];
  const values = state.network.features.map((feature, i) => layer.value(feature.properties, i));
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor(0.02 * (sorted.length - 1))];
  const high = sorted[Math.ceil(0.98 * (sorted.length - 1))];
  state.map?.show(values.map((value) => Math.min(Math.max((value - low) / (high - low || 1), 0), 1)));
  const shown = layer.shown ?? ((value) => Math.round(value));
  at("low").textContent = `${shown(low)}`;
  at("unit").textContent = layer.unit;
  at("high").textContent = `${shown(high)}`;
  at("ramp").style.background = `linear-gradient(to right, ${ramp().join(", ")})`;
  at("legend").setAttribute("aria-label",
    `Colours from dark, ${shown(low)}, to bright, ${shown(high)} ${layer.unit}`);
}

async function refreshBelief() {
  state.belief = await ask("GET", `/v1/belief?vehicle=${at("vehicle").value}`);
  paintRoads();
}

// ---- route

const place = (which) => state.ends[which] ?? at(which).value.trim();

function setEnd(which, point) {
  state.ends[which] = point && { longitude: point.lng, latitude: point.lat };
  at(which).value = point ? `${point.lat.toFixed(5)}, ${point.lng.toFixed(5)}` : "";
  state.map?.pin(which, point);
}

function clicked(point) {
  if (!at("start").value || (at("start").value && at("goal").value)) {
    clearRoute();
    setEnd("start", point);
  } else {
    setEnd("goal", point);
    findRoute();
  }
}

function clearRoute() {
  setEnd("start", null);
  setEnd("goal", null);
  state.answer = null;
  state.front = [];
  at("result").hidden = true;
  at("drive").disabled = true;
  at("problem").textContent = "";
  state.map?.showRoutes(null, []);
}

function wish() {
  const kilo = (id) => 1000 * Number(at(id).value || 0);
  const body = {
    departs_at: withOffset(new Date()),
    start: place("start"), goal: place("goal"), mode: at("mode").value, vehicle: at("vehicle").value,
    alternatives: Number(at("alternatives").value || 0),
  };
  if (at("departs").value) body.departs_at = withOffset(new Date(at("departs").value));
  if (at("temperature").value !== "") body.temperature_c = Number(at("temperature").value);
  if (at("payload").value !== "") body.payload_kg = Number(at("payload").value);
  if (at("charge").value !== "") {
    body.battery = { charge_wh: kilo("charge"), capacity_wh: kilo("capacity"), reserve_wh: kilo("reserve") };
  }
  return body;
}

/** A moment as RFC 3339 with the offset of this browser: times of day are local. */
function withOffset(moment) {
  const two = (number) => String(Math.abs(number)).padStart(2, "0");
  const ahead = -moment.getTimezoneOffset();
  const local = new Date(moment.getTime() + ahead * 60000).toISOString().slice(0, 19);
  return `${local}${ahead < 0 ? "-" : "+"}${two(Math.trunc(ahead / 60))}:${two(ahead % 60)}`;
}

async function findRoute() {
  at("problem").textContent = "";
  try {
    state.answer = await ask("POST", "/v1/routes", wish());
  } catch (refusal) {
    explain(refusal);
    return;
  }
  for (const which of ["start", "goal"]) {
    if (!state.ends[which]) {
      const line = state.answer.geometry.coordinates;
      const [lng, lat] = which === "start" ? line[0] : line.at(-1);
      state.map?.pin(which, { lng, lat });
    }
  }
  at("drive").disabled = false;
  at("driven").textContent = "";
  const choices = [state.answer, ...state.answer.alternatives];
  at("choices").replaceChildren(...choices.map((route, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${i ? `Other ${i}` : "Suggested"}: ${energy(route.energy_wh)}, ${minutes(route.minutes)}`;
    button.addEventListener("click", () => showRoute(i));
    return button;
  }));
  at("choices").hidden = choices.length < 2;
  state.front = [];
  showRoute(0);
  await findFront();
}

/** Routes between the fastest and the thriftiest, for the same vehicle and moment. */
async function findFront() {
  const asked = wish();
  const name = (given) => (typeof given === "string" ? given : `${given.longitude.toFixed(7)},${given.latitude.toFixed(7)}`);
  const query = new URLSearchParams({ start: name(asked.start), goal: name(asked.goal), vehicle: asked.vehicle, departs_at: asked.departs_at });
  for (const key of ["temperature_c", "payload_kg"]) if (asked[key] !== undefined) query.set(key, asked[key]);
  try {
    state.front = (await ask("GET", `/v1/front?${query}`)).routes;
  } catch {
    state.front = [];  // the route is there all the same
  }
  showFront(-1);
}

function showFront(place) {
  at("front-figure").hidden = state.front.length < 2;
  const chosen = state.front[place];
  at("front-shown").textContent = chosen ? `${frontName(place, state.front.length)}, ${minutes(chosen.minutes)}, ${energy(chosen.energy_wh)}` : "choose a dot";
  if (state.front.length > 1) drawFront(at("front"), state.front, place, (i) => showRoute(routes().indexOf(state.front[i])));
}

const routes = () => [state.answer, ...state.answer.alternatives, ...state.front];

const energy = (wh) => (Math.abs(wh) >= 10000 ? `${(wh / 1000).toFixed(2)} kWh` : `${Math.round(wh)} Wh`);

const minutes = (value) => (value < 100 ? `${value.toFixed(value < 10 ? 1 : 0)} min` : `${Math.floor(value / 60)} h ${Math.round(value % 60)} min`);

const clock = (text) => text.slice(11, 16);  // as the server writes it: local where the roads are

function showRoute(number) {
  const choices = routes();
  const route = choices[number];
  const known = 1 + state.answer.alternatives.length;
  state.shown = number;
  at("drive").disabled = false;
  at("result").hidden = false;
  at("energy").textContent = energy(route.energy_wh);
  at("interval").textContent = `90 %: ${energy(route.energy_low_wh)} to ${energy(route.energy_high_wh)}`;
  at("minutes").textContent = minutes(route.minutes);
  at("minutes-interval").textContent = `90 %: ${minutes(route.minutes_low)} to ${minutes(route.minutes_high)}`;
  at("arrives").textContent = `${clock(route.arrives_at)} (${clock(route.arrives_early)} to ${clock(route.arrives_late)})`;
  at("length").textContent = `${(route.length_m / 1000).toFixed(2)} km, ${route.edges.length} edges`;
  at("exploration").textContent = number ? "–" : `${energy(state.answer.exploration_wh)} above the best known`;
  at("arrival-row").hidden = route.arrival_probability === null;
  at("arrival").textContent = route.arrival_probability === null ? "" : `${(100 * route.arrival_probability).toFixed(1)} %`;
  at("fallback").textContent = state.answer.fallback ? `Best route instead: ${state.answer.fallback}.` : "";
  [...at("choices").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === number)));
  drawProfile(at("profile"), route.profile);
  showFront(number - known);
  state.map?.showRoutes(route, choices.filter((_, i) => i !== number && i < known));
}

function explain(refusal) {
  if (refusal.status === 401) at("key-form").hidden = false;
  at("problem").textContent = refusal.message;
}

// ---- demo

async function driveIt() {
  try {
    const route = routes()[state.shown];
    const trip = await ask("POST", "/v1/demo/drive", { route_id: route.route_id });
    at("driven").textContent =
      `Took ${minutes(trip.minutes)} and ${energy(trip.energy_wh)}; ${energy(trip.predicted_wh)} were expected, ` +
      `${energy(trip.best_possible_wh)} is the best possible on average.`;
    at("drive").disabled = true;
    await refreshTour();
  } catch (refusal) { explain(refusal); }
}

async function driveTour() {
  at("tour").disabled = true;
  try {
    await ask("POST", "/v1/demo/tour", { trips: 100 });
    let progress;
    do {
      progress = await refreshTour();
      await new Promise((resolve) => setTimeout(resolve, 150));
    } while (progress.done < progress.asked);
    const aside = progress.put_aside ? `, ${progress.put_aside} of them put aside as implausible` : "";
    at("driven").textContent = progress.problem ?? `${progress.done} trips driven${aside}.`;
  } catch (refusal) { explain(refusal); }
  at("tour").disabled = false;
}

async function refreshTour() {
  const last = state.trips.at(-1)?.number ?? 0;
  const progress = await ask("GET", `/v1/demo/tour?after=${last}`);
  at("progress").max = Math.max(progress.asked, 1);
  at("progress").value = progress.done;
  state.trips = [...state.trips, ...progress.trips].slice(-2000);
  drawRegret(at("regret"), state.trips);
  if (state.trips.length > 4) {
    at("calibration-figure").hidden = false;
    drawCalibration(at("calibration"), state.trips.map((trip) => (trip.energy_wh - trip.predicted_wh) / trip.predicted_std_wh));
  }
  return progress;
}

// ---- what is learned

async function refreshStats() {
  const stats = await ask("GET", "/v1/stats");
  at("trips").textContent = stats.trips_learned.toLocaleString("en");
  at("edges").textContent = `${stats.distinct_edges.toLocaleString("en")} of ${state.network.features.length.toLocaleString("en")}`;
  const share = stats.calibration.coverage_90;
  at("coverage").textContent = share === null ? "no trip on a route yet" : `${(100 * share).toFixed(1)} % of ${stats.calibration.trips} trips`;
  const inTime = stats.times.coverage_90;
  at("time-coverage").textContent = inTime === null ? "no trip was timed yet" : `${(100 * inTime).toFixed(1)} % of ${stats.times.trips} trips`;
  at("status").textContent = `${state.network.name}${state.demo ? ", demonstration" : ""}: ${stats.trips_learned.toLocaleString("en")} trips learned`;
  if (stats.trips_learned !== state.learned) {
    state.learned = stats.trips_learned;
    await refreshBelief();
  }
}

async function watch() {
  for (;;) {
    try {
      await refreshStats();
    } catch (refusal) {
      at("status").textContent = refusal.status ? refusal.message : "The server does not answer; trying again…";
      if (refusal.status === 401) at("key-form").hidden = false;
    }
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 10000 : 1500));
  }
}

function setTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  at("theme").setAttribute("aria-pressed", String(dark));
  state.map?.ready.then(() => state.map.paint());
  paintRoads();
}

async function isDemo() {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      await refreshTour();
      return true;
    } catch (refusal) {
      if (refusal.status === 404 || refusal.status === 403) return false;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  return false;
}

async function begin() {
  if (state.network) return;  // a new key for a page that works already
  try {
    state.network = await ask("GET", "/v1/network");
  } catch (refusal) {
    at("status").textContent = refusal.message;
    if (refusal.status === 401) at("key-form").hidden = false;
    else setTimeout(begin, 1500);
    return;
  }
  at("key-form").hidden = true;
  at("problem").textContent = "";
  state.demo = await isDemo();
  at("demo").hidden = !state.demo;
  if (hasWebGL()) {
    try {
      state.map = new RoadMap("map", state.network, clicked);
      await state.map.ready;
    } catch {
      state.map = null;
    }
  }
  at("no-map").hidden = state.map !== null;
  document.body.dataset.ready = "true";
  watch();
}

at("colour").addEventListener("change", paintRoads);
at("vehicle").addEventListener("change", () => state.network && refreshBelief().catch(explain));
at("route-form").addEventListener("submit", (event) => { event.preventDefault(); findRoute(); });
at("clear").addEventListener("click", clearRoute);
for (const which of ["start", "goal"]) {
  at(which).addEventListener("input", () => { state.ends[which] = null; state.map?.pin(which, null); });
}
at("drive").addEventListener("click", driveIt);
at("tour").addEventListener("click", driveTour);
at("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("superarm-key", at("key").value.trim());
  at("key").value = "";
  at("key-form").hidden = true;
  begin();
});
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
begin();
