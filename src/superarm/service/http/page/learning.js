// Learning to be seen: fog that lifts, cars that drive, what it saves.

import { ask, at } from "./api.js";
import { drawCalibration, drawRegret } from "./charts.js";
import { compareWith, lessOrMore } from "./comparison.js";
import { ramp } from "./map.js";
import { beforehand, placeOf, snapshotOf, withOne } from "./snapshots.js";
import { state } from "./state.js";
import { explain, shownRoute } from "./trip.js";
import { energy, minutes, number } from "./units.js";

const told = (/** @type {number} */ wh) => energy(wh, state.units);
const km = (/** @type {number} */ id) => Math.max((state.roads.get(id)?.properties.length_m ?? 1000) / 1000, 0.01);

/** Layers with fixed scales, so that what shrinks is seen to shrink. */
const LAYERS = {
  fog: { low: "known", unit: "", high: "in the fog", range: [0, 1] },
  correction: { low: "−40", unit: "Wh/km against physics", high: "+40", range: [-40, 40], diverging: true },
  energy: { low: "0", unit: "Wh/km", high: "300", range: [0, 300] },
  visits: { low: "0", unit: "times measured", high: "100", range: [0, Math.log1p(100)] },
  height: { low: "", unit: "m", high: "", range: [0, 1] },
  plain: { low: "", unit: "", high: "", range: [0, 1] },
};

/** What was believed at the moment that is looked at. */
const chosenSnapshot = () => state.snapshots[state.moment < 0 ? state.snapshots.length - 1 : state.moment];

/** Values of roads at that moment. @param {string} name @returns {Map<number, number>} */
export function valuesOf(name) {
  const belief = state.belief, snapshot = chosenSnapshot();
  switch (name) {
    case "correction": return new Map([...snapshot.correction].map(([id, off]) => [id, off / km(id)]));
    case "energy": return new Map(belief.edge.map((/** @type {number} */ id, /** @type {number} */ i) => [id, (belief.physics_wh[i] + (snapshot.correction.get(id) ?? 0)) / km(id)]));
    case "visits": return new Map([...snapshot.count].map(([id, count]) => [id, Math.log1p(count)]));
    case "height": return new Map([...state.roads].map(([id, road]) => [id, (road.properties.start_height_m + road.properties.end_height_m) / 2]));
    default: return new Map();
  }
}

export function paintRoads() {
  if (!state.network || !state.belief || !state.snapshots.length) return;
  const name = /** @type {keyof typeof LAYERS} */ (at("colour").value);
  const layer = { ...LAYERS[name] };
  const values = valuesOf(name);
  if (name === "height") {
    const all = [...values.values()];
    layer.range = [Math.min(...all), Math.max(...all)];
    [layer.low, layer.high] = layer.range.map((value) => number(value));
  }
  const [low, high] = layer.range;
  state.map?.paint(name, "diverging" in layer);
  state.map?.show("value", new Map([...values].map(([id, value]) => [id, Math.min(Math.max((value - low) / (high - low || 1), 0), 1)])));
  state.map?.show("fog", chosenSnapshot().fog);
  at("legend").hidden = name === "plain";
  at("low").textContent = layer.low;
  at("unit").textContent = layer.unit;
  at("high").textContent = layer.high;
  const style = getComputedStyle(document.documentElement);
  const shades = name === "fog" ? [style.getPropertyValue("--known"), style.getPropertyValue("--fog")] : ramp("diverging" in layer);
  at("ramp").style.background = `linear-gradient(to right, ${shades.join(", ")})`;
  at("legend").setAttribute("aria-label", `Colours from ${layer.low} to ${layer.high}: ${layer.unit}`);
}

/** @param {string} [box] */
export async function refreshBelief(box = "") {
  const vehicle = at("vehicle").value;
  const belief = await ask("GET", `/v1/belief?vehicle=${vehicle}${box}`);
  if (vehicle !== at("vehicle").value) return;  // another vehicle was chosen meanwhile, and is asked for
  const trips = state.moment < 0 ? undefined : state.snapshots[state.moment]?.trips;
  state.belief = belief;
  if (!state.snapshots.length || box) state.snapshots = [beforehand(belief)];
  if (belief.trips_learned > 0) state.snapshots = withOne(state.snapshots, snapshotOf(belief));
  state.moment = trips === undefined ? -1 : placeOf(state.snapshots, trips);
  const slider = at("moment");
  slider.max = String(state.snapshots.length - 1);
  slider.value = state.moment < 0 ? slider.max : String(state.moment);
  tellMoment();
  paintRoads();
}

function tellMoment() {
  const snapshot = state.snapshots[Number(at("moment").value)];
  const trips = snapshot?.trips ?? 0;
  const words = trips ? `after ${trips.toLocaleString("en")} trips` : "before the first trip";
  at("moment-told").textContent = words;
  at("moment").setAttribute("aria-valuetext", words);
}

/** Look at what was believed then; at the end of the slider, at what is learned next. */
export function chooseMoment() {
  const slider = at("moment");
  state.moment = slider.value === slider.max ? -1 : Number(slider.value);
  tellMoment();
  paintRoads();
}

// ---- the demonstration

export async function driveIt() {
  const route = state.plan ?? shownRoute();
  if (!route) return;
  try {
    const trip = await ask("POST", "/v1/demo/drive", { route_id: route.route_id });
    at("driven").textContent =
      `Took ${minutes(trip.minutes)} and ${told(trip.energy_wh)}; ${told(trip.predicted_wh)} were expected, ` +
      `${told(trip.best_possible_wh)} is the best possible on average.`;
    at("drive").disabled = true;
    await refreshTour();
  } catch (refusal) { explain(refusal); }
}

export async function driveTour() {
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

export async function refreshTour() {
  const last = state.trips.at(-1)?.number ?? 0;
  const progress = await ask("GET", `/v1/demo/tour?after=${last}`);
  at("progress").max = Math.max(progress.asked, 1);
  at("progress").value = progress.done;
  if (last || progress.trips.length < 20) for (const trip of progress.trips) state.map?.drive(lineOf(trip.edges), 2 + trip.true_minutes / 4);
  state.trips = [...state.trips, ...progress.trips].slice(-2000);
  at("regret-figure").hidden = !state.trips.length;
  drawRegret(at("regret"), state.trips);
  showComparison();
  if (state.trips.length > 4) {
    at("calibration-figure").hidden = false;
    drawCalibration(at("calibration"), state.trips.map((trip) => (trip.energy_wh - trip.predicted_wh) / trip.predicted_std_wh));
  }
  return progress;
}

/** What the cars took beside other routes: physics alone first, since that is what learning is worth. */
function showComparison() {
  at("compared").hidden = state.trips.length < 2;
  for (const rival of /** @type {const} */ (["physics", "fastest"])) {
    const { kwh, minutes: time } = compareWith(state.trips, rival);
    const lines = [lessOrMore(kwh, "kWh", "energy", 2), lessOrMore(time, "min", "time", 0)];
    at(`compared-${rival}`).replaceChildren(...lines.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  }
  at("compared-trips").textContent = `What the cars took in total over ${state.trips.length.toLocaleString("en")} trips on the hidden truth, ± one standard error. These cars also try roads that are little known, in order to learn.`;
}

/** The line along some roads that are on the map. @param {number[]} edges */
function lineOf(edges) {
  return edges.flatMap((edge) => state.roads.get(edge)?.geometry.coordinates ?? []);
}
