// A driver's questions about charge: with which stops, how far.

import { ask, at } from "./api.js";
import { drawCharge } from "./charts.js";
import { state } from "./state.js";
import { battery, circumstances, explain, place, rise, showAges, told } from "./trip.js";
import { clock, minutes, percent } from "./units.js";

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
  showAges();
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
    state.reach = answer;
    state.map?.showReach(answer);
    const words = answer.features.map((/** @type {any} */ one) => `${percent(one.properties.confidence)}: ${one.properties.length_km.toFixed(0)} km of roads`);
    at("reach-result").hidden = false;
    showAges();
    at("reach-told").textContent = `Within reach${at("back").checked ? " and back" : ""}, with a confidence of ${words.join(", ")}.`;
  } catch (refusal) {
    explain(refusal);
  }
}
