// A driver's questions: which way, with which stops, how far.

import { Refusal, ask, at } from "./api.js";
import { drawCharge, drawFront, drawParts, drawProfile, frontName } from "./charts.js";
import { lessOrMore } from "./comparison.js";
import { geojson, gpx, placeText } from "./links.js";
import { state } from "./state.js";
import { clock, distance, energy, minutes, percent, withMinus } from "./units.js";

const told = (/** @type {number} */ wh, /** @type {number} */ length_m = 0) => energy(wh, state.units, length_m);

export const place = (/** @type {string} */ which) => state.ends[which] ?? at(which).value.trim();

/** @param {string} which @param {{ lng: number, lat: number } | null} point @param {string} [name] */
export function setEnd(which, point, name) {
  state.ends[which] = point && { longitude: point.lng, latitude: point.lat };
  at(which).value = point ? (name ?? `${point.lat.toFixed(5)}, ${point.lng.toFixed(5)}`) : "";
  state.map?.pin(which, point);
}

export function clearRoute() {
  setEnd("start", null);
  setEnd("goal", null);
  Object.assign(state, { answer: null, front: [], plan: null, first: null });
  for (const id of ["result", "plan-result", "reach-result"]) at(id).hidden = true;
  if (at("drive")) at("drive").disabled = true;
  at("problem").textContent = "";
  state.map?.showRoutes(null, []);
  state.map?.showReach(null);
  if (state.stations) state.map?.showStations(state.stations, []);
}

/** A moment as RFC 3339 with the offset of this browser: times of day are local. @param {Date} moment */
export function withOffset(moment) {
  const two = (/** @type {number} */ number) => String(Math.abs(number)).padStart(2, "0");
  const ahead = -moment.getTimezoneOffset();
  const local = new Date(moment.getTime() + ahead * 60000).toISOString().slice(0, 19);
  return `${local}${ahead < 0 ? "-" : "+"}${two(Math.trunc(ahead / 60))}:${two(ahead % 60)}`;
}

function circumstances() {
  /** @type {Record<string, any>} */
  const body = { vehicle: at("vehicle").value, departs_at: withOffset(at("departs").value ? new Date(at("departs").value) : new Date()) };
  if (at("temperature").value !== "") body.temperature_c = Number(at("temperature").value);
  if (at("payload").value !== "") body.payload_kg = Number(at("payload").value);
  return body;
}

/** @returns {{ charge_wh: number, capacity_wh: number, reserve_wh: number } | null} */
function battery() {
  if (at("charge").value === "") return null;
  const kilo = (/** @type {string} */ id) => 1000 * Number(at(id).value || 0);
  return { charge_wh: kilo("charge"), capacity_wh: kilo("capacity"), reserve_wh: kilo("reserve") };
}

export function wish() {
  /** @type {Record<string, any>} */
  const body = {
    ...circumstances(), start: place("start"), goal: place("goal"), mode: at("mode").value, rivals: true,
    alternatives: Number(at("alternatives").value || 0),
  };
  if (at("extra-time").value !== "") body.max_extra_time = Number(at("extra-time").value) / 100;
  const charged = battery();
  if (charged) body.battery = charged;
  return body;
}

/** @param {unknown} refusal */
export function explain(refusal) {
  const status = refusal instanceof Refusal ? refusal.status : 0;
  if (status === 401) at("key-form").hidden = false;
  at("problem").textContent = plainWords(refusal instanceof Error ? refusal.message : String(refusal));
}

/** The server's words for programs, as a person would say them. @param {string} text */
export function plainWords(text) {
  return withMinus(text)
    .replace(/; move the point, or raise within_m \(.*\)/, ": choose a place closer to a road")
    .replace(/max_extra_energy allows/, "at most so much more is allowed:");
}

/** @param {boolean} [again] whether the same question is asked again, since more was learned */
export async function findRoute(again = false) {
  if (!again) at("problem").textContent = "";
  let answer;
  try {
    answer = await ask("POST", "/v1/routes", wish());
  } catch (refusal) {
    if (!again) explain(refusal);
    return;
  }
  state.answer = answer;
  if (!again) state.first = answer;
  state.plan = null;
  at("plan-result").hidden = true;
  for (const which of ["start", "goal"]) {
    const line = answer.geometry.coordinates;
    const [lng, lat] = which === "start" ? line[0] : line[line.length - 1];
    if (!state.ends[which]) state.map?.pin(which, { lng, lat });
  }
  at("drive").disabled = false;
  if (!again) at("driven").textContent = "";
  const choices = [answer, ...answer.alternatives];
  at("choices").replaceChildren(...choices.map((route, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${named(i)}: ${told(route.energy_wh)}, ${minutes(route.minutes)}`;
    button.addEventListener("click", () => showRoute(i));
    return button;
  }));
  at("choices").hidden = choices.length < 2;
  if (!again) state.front = [];
  showRoute(again ? Math.min(state.shown, choices.length - 1) : 0, again);
  if (!again) await findFront();
}

/** What a route is, in words. @param {number} i */
function named(i) {
  if (i === 0) return { best: "Thriftiest", explore: "To learn", optimistic: "Promising" }[/** @type {"best"} */ (state.answer.mode)];
  return `Another way ${i}`;
}

/** Routes between the fastest and the thriftiest, for the same vehicle and moment. */
async function findFront() {
  const { start, goal, ...rest } = { start: place("start"), goal: place("goal"), ...circumstances() };
  const query = new URLSearchParams({ start: placeText(start), goal: placeText(goal), ...rest });
  try {
    state.front = (await ask("GET", `/v1/front?${query}`)).routes;
  } catch {
    state.front = [];  // the route is there all the same
  }
  showFront(-1);
}

const routes = () => [state.answer, ...state.answer.alternatives, ...state.front];

export const shownRoute = () => (state.answer ? routes()[state.shown] : null);

/** @param {number} chosen */
function showFront(chosen) {
  at("front-figure").hidden = state.front.length < 2;
  const route = state.front[chosen];
  at("front-shown").textContent = route ? `${frontName(chosen, state.front.length)}, ${minutes(route.minutes)}, ${told(route.energy_wh)}` : "choose a dot";
  if (state.front.length > 1) drawFront(at("front"), state.front, chosen, (/** @type {number} */ i) => showRoute(routes().indexOf(state.front[i])));
}

/** @param {number} number @param {boolean} [stay] whether the map stays where it is */
export function showRoute(number, stay = false) {
  const choices = routes(), route = choices[number], known = 1 + state.answer.alternatives.length;
  state.shown = number;
  at("drive").disabled = false;
  at("result").hidden = false;
  document.body.classList.add("answered");
  at("energy").textContent = told(route.energy_wh, route.length_m);
  at("interval").textContent = `90 %: ${told(route.energy_low_wh, route.length_m)} to ${told(route.energy_high_wh, route.length_m)}`;
  at("minutes").textContent = minutes(route.minutes);
  at("minutes-interval").textContent = `90 %: ${minutes(route.minutes_low)} to ${minutes(route.minutes_high)}`;
  at("arrives").textContent = `${clock(route.arrives_at)} (${clock(route.arrives_early)} to ${clock(route.arrives_late)})`;
  at("length").textContent = `${distance(route.length_m, state.units)}, ${route.edges.length} road sections`;
  at("exploration").textContent = number || state.answer.mode === "best" ? "–" : `${told(state.answer.exploration_wh)} more than the thriftiest known`;
  at("arrival-row").hidden = route.arrival_probability === null;
  at("arrival").textContent = route.arrival_probability === null ? "" : percent(route.arrival_probability, 1);
  at("fallback").textContent = state.answer.fallback ? `Less bold than drawn: ${plainWords(state.answer.fallback)}.` : "";
  showNarrower(route, number);
  showRivals(route);
  [...at("choices").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === number)));
  drawParts(at("parts"), route.parts, told);
  drawProfile(at("profile"), route.profile);
  showFront(number - known);
  state.map?.showRoutes(route, choices.filter((_, i) => i !== number && i < known), stay);
  if (!stay) rise("result");
}

/** On a phone the answer comes up from below. @param {string} id */
function rise(id) {
  if (innerWidth < 760) at(id).scrollIntoView({ block: "start" });
}

/** How much surer the same answer has become since it was first given. @param {any} route @param {number} number */
function showNarrower(route, number) {
  const first = number === 0 ? state.first : null;
  const more = first ? state.answer.trips_learned - first.trips_learned : 0;
  at("narrower").textContent = first && more > 0
    ? `± ${told(1.645 * route.energy_std_wh)} now; ± ${told(1.645 * first.energy_std_wh)} when first asked, ${more} trips ago.`
    : "";
}

/** The route beside those that learn nothing, as all are believed to be. @param {any} route */
function showRivals(route) {
  const { rivals } = state.answer;
  const beside = (/** @type {{ energy_wh: number, minutes: number }} */ rival) =>
    `${lessOrMore({ total: route.energy_wh - rival.energy_wh }, "Wh", "energy", 0)}, ${lessOrMore({ total: route.minutes - rival.minutes }, "min", "time", 1)}`;
  at("rivals").textContent = rivals
    ? `Estimated, against the thriftiest route by physics alone: ${beside(rivals.physics)}; against the fastest route by speed limits: ${beside(rivals.fastest)}.`
    : "";
}

// ---- charging and reach

export async function findPlan() {
  at("problem").textContent = "";
  const charged = battery();
  if (!charged) {
    at("problem").textContent = "Say how much is in the battery, under “Departure, load and battery”.";
    at("more").open = true;
    at("charge").focus();
    return;
  }
  try {
    const body = { ...circumstances(), start: place("start"), goal: place("goal"), battery: charged, probability: Number(at("sure").value) / 100 };
    state.plan = await ask("POST", "/v1/plans", body);
  } catch (refusal) {
    at("plan-result").hidden = true;
    explain(refusal);
    return;
  }
  showPlan(charged);
}

/** @param {{ charge_wh: number, capacity_wh: number, reserve_wh: number }} charged */
function showPlan(charged) {
  const plan = state.plan;
  at("plan-result").hidden = false;
  document.body.classList.add("answered");
  at("plan-total").textContent = minutes(plan.total_minutes);
  at("plan-split").textContent = `${minutes(plan.minutes)} driving, ${minutes(plan.charging_minutes)} charging; the charge lasts with ${percent(plan.probability, 1)}`;
  at("plan-stops").replaceChildren(...plan.stops.map((/** @type {any} */ stop) => {
    const item = document.createElement("li");
    item.textContent = `${clock(stop.arrives_at)} ${stop.name} (${stop.power_kw} kW): from ${told(stop.arrives_wh)} to ${told(stop.leaves_wh)} in ${minutes(stop.charging_minutes)}` +
      (stop.waiting_minutes > 0 ? `, after waiting ${minutes(stop.waiting_minutes)} until it opens` : "");
    return item;
  }));
  at("plan-none").hidden = plan.stops.length > 0;
  drawCharge(at("charge-chart"), plan, charged);
  state.map?.showRoutes(plan, []);
  rise("plan-result");
  if (state.stations) state.map?.showStations(state.stations, plan.stops.map((/** @type {any} */ stop) => stop.station));
}

export async function findReach() {
  at("problem").textContent = "";
  const charged = battery();
  if (!charged || !place("start")) {
    at("problem").textContent = charged ? "Choose a start first." : "Say how much is in the battery, under “Departure, load and battery”.";
    at("more").open = !charged || at("more").open;
    return;
  }
  try {
    const answer = await ask("POST", "/v1/reach", { ...circumstances(), start: place("start"), battery: charged, back: at("back").checked });
    state.map?.showReach(answer);
    const words = answer.features.map((/** @type {any} */ one) => `${percent(one.properties.confidence)}: ${one.properties.length_km.toFixed(0)} km of roads`);
    at("reach-result").hidden = false;
    at("reach-told").textContent = `Within reach${at("back").checked ? " and back" : ""}, with a confidence of ${words.join(", ")}.`;
  } catch (refusal) {
    explain(refusal);
  }
}

/** @param {"gpx" | "geojson"} kind */
export function exported(kind) {
  const route = state.plan ?? shownRoute();
  if (!route) return;
  const text = kind === "gpx" ? gpx(route, "Superarm route") : geojson(route, "Superarm route");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind === "gpx" ? "application/gpx+xml" : "application/geo+json" }));
  link.download = `route.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
