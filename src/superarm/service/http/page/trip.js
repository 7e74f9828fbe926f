// A driver's question: which way.

import { Refusal, ask, at } from "./api.js";
import { drawFront, drawParts, drawProfile, frontName, isSameWay } from "./charts.js";
import { lessOrMore } from "./comparison.js";
import { geojson, gpx, placeText, rounded } from "./links.js";
import { state } from "./state.js";
import { clock, distance, energy, minutes, percent, withMinus } from "./units.js";

export const told = (/** @type {number} */ wh, /** @type {number} */ length_m = 0) => energy(wh, state.units, length_m);

/** @param {string} which */
export function place(which) {
  const point = state.ends[which];
  return point ? rounded(point) : at(which).value.trim();
}

/** @param {string} which @param {{ lng: number, lat: number } | null} point @param {string} [name] */
export function setEnd(which, point, name) {
  state.ends[which] = point && { longitude: point.lng, latitude: point.lat };
  at(which).value = point ? (name ?? `${point.lat.toFixed(5)}, ${point.lng.toFixed(5)}`) : "";
  state.map?.pin(which, point);
}

export function clearRoute() {
  setEnd("start", null);
  setEnd("goal", null);
  Object.assign(state, { question: null, answer: null, front: [], plan: null, reach: null, first: null });
  lastAsked = null;
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

export function circumstances() {
  /** @type {Record<string, any>} */
  const body = { vehicle: at("vehicle").value, departs_at: withOffset(at("departs").value ? new Date(at("departs").value) : new Date()) };
  if (at("temperature").value !== "") body.temperature_c = Number(at("temperature").value);
  if (at("payload").value !== "") body.payload_kg = Number(at("payload").value);
  return body;
}

/** @returns {{ charge_wh: number, capacity_wh: number, reserve_wh: number } | null} */
export function battery() {
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

/** @type {unknown} the question that was asked last; an answer to one before comes too late */
let lastAsked = null;

/** Ask for the route that the form describes, and show it. */
export async function findRoute() {
  at("problem").textContent = "";
  const question = { body: wish(), now: at("departs").value === "" };
  lastAsked = question;
  let answer;
  try {
    answer = await ask("POST", "/v1/routes", question.body);
  } catch (refusal) {
    if (lastAsked === question) explain(refusal);
    return;
  }
  if (lastAsked !== question) return;
  Object.assign(state, { question, answer, first: answer, front: [], plan: null });
  at("plan-result").hidden = true;
  at("driven").textContent = "";
  for (const which of ["start", "goal"]) {
    const line = answer.geometry.coordinates;
    const [lng, lat] = which === "start" ? line[0] : line[line.length - 1];
    if (!state.ends[which]) state.map?.pin(which, { lng, lat });
  }
  showRoute(0);
  showAges();
  const front = await findFront(question.body);
  if (state.answer !== answer) return;  // what was learned meanwhile has given both anew
  state.front = front;
  showFront();
}

/**
 * Ask the same question again if more trips were learned: the thriftiest route has a surer answer, with all that is drawn of it.
 * A route to learn would be another one, and plans and areas are not moved under people's eyes: they say how old they are.
 */
export async function refreshRoute() {
  const { question, answer: before } = state;
  if (question && before.mode === "best" && before.trips_learned !== state.stats.trips_learned) {
    const body = question.now ? { ...question.body, departs_at: withOffset(new Date()) } : question.body;
    const [answer, front] = await Promise.all([ask("POST", "/v1/routes", body).catch(() => null), findFront(body)]);
    if (answer && state.answer === before) {  // else the next look at what was learned asks again
      const kept = placeOfShown(answer, front);
      Object.assign(state, { answer, front });
      showRoute(kept, true);
    }
  }
  showAges();
}

/** Where the route that is shown is among new ones: first as it was, fastest as it was, or the same way. @param {any} answer @param {any[]} front */
function placeOfShown(answer, front) {
  const before = shownRoute(), own = 1 + answer.alternatives.length;
  if (state.shown === 0) return 0;
  if (before === state.front[0] && front.length) return own;
  return Math.max([answer, ...answer.alternatives, ...front].findIndex((route) => isSameWay(route, before)), 0);
}

/** How many trips were learned since answers that are not asked again by themselves. */
export function showAges() {
  const trips = state.stats?.trips_learned ?? 0;
  for (const [id, answer] of /** @type {[string, any][]} */ ([["route", state.answer], ["plan", state.plan], ["reach", state.reach]])) {
    const more = answer ? trips - answer.trips_learned : 0;
    at(`${id}-age`).hidden = more <= 0;
    at(`${id}-age`).textContent = `${more.toLocaleString("en")} more ${more === 1 ? "trip has" : "trips have"} been learned since. Ask again to include ${more === 1 ? "it" : "them"}.`;
  }
}

/** What a route is, in words. @param {number} i */
function named(i) {
  if (i === 0) return { best: "Thriftiest", explore: "To learn", optimistic: "Promising" }[/** @type {"best"} */ (state.answer.mode)];
  return `Another way ${i}`;
}

/** Routes between the fastest and the thriftiest, for the same ends, vehicle and moment; none if they cannot be had. @param {Record<string, any>} body */
async function findFront({ start, goal, vehicle, departs_at, temperature_c, payload_kg }) {
  const asked = { start: placeText(start), goal: placeText(goal), vehicle, departs_at, temperature_c, payload_kg };
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== undefined));
  return ask("GET", `/v1/front?${query}`).then(({ routes: front }) => front, () => []);  // the route is there all the same
}

const routes = () => [state.answer, ...state.answer.alternatives, ...state.front];

export const shownRoute = () => (state.answer ? routes()[state.shown] : null);

const figures = (/** @type {any} */ route) => `${minutes(route.minutes)}, ${told(route.energy_wh, route.length_m)}`;

function showFront() {
  const { front } = state, route = shownRoute();
  at("front-figure").hidden = front.length < 2;
  const i = front.findIndex((other) => isSameWay(other, route)), name = i < 0 ? named(state.shown) ?? "" : frontName(i, front.length);
  at("front-shown").textContent = `${name}, ${figures(route)}`;
  if (front.length > 1) drawFront(at("front"), front, route, name, figures, (/** @type {number} */ one) => showRoute(routes().indexOf(front[one])));
}

/** The first routes as buttons, which stay when they say something new. */
function showChoices() {
  const choices = at("choices"), count = 1 + state.answer.alternatives.length;
  while (choices.children.length > count) choices.lastChild.remove();
  while (choices.children.length < count) {
    const button = document.createElement("button"), number = choices.children.length;
    button.type = "button";
    button.addEventListener("click", () => showRoute(number));
    choices.append(button);
  }
  choices.hidden = count < 2;
  routes().slice(0, count).forEach((route, i) => {
    choices.children[i].textContent = `${named(i)}: ${told(route.energy_wh)}, ${minutes(route.minutes)}`;
    choices.children[i].setAttribute("aria-pressed", String(i === state.shown));
  });
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
  showChoices();
  drawParts(at("parts"), route.parts, told);
  drawProfile(at("profile"), route.profile);
  showFront();
  if (!stay || !state.plan) state.map?.showRoutes(route, choices.filter((_, i) => i !== number && i < known), stay);
  if (!stay) rise("result");
}

/** On a phone the answer comes up from below. @param {string} id */
export function rise(id) {
  if (innerWidth < 760) at(id).scrollIntoView({ block: "start" });
}

/** How sure the answer to the same question has become since it was first given. @param {any} route @param {number} number */
function showNarrower(route, number) {
  const first = number === 0 ? state.first : null;
  const more = first ? state.answer.trips_learned - first.trips_learned : 0;
  const same = more > 0 && isSameWay(route, first);
  at("narrower").classList.toggle("good", same && route.energy_std_wh < first.energy_std_wh);
  at("narrower").textContent = more > 0
    ? `± ${told(1.645 * route.energy_std_wh)} now; ± ${told(1.645 * first.energy_std_wh)} when first asked, ${more.toLocaleString("en")} trips ago${same ? "" : ", of another route"}.`
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
