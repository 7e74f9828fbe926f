// Small charts in SVG, drawn with the page's own colours.
// @ts-nocheck

import { number } from "./units.js";

const SPACE = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function frame(svg, x, y, options) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const left = 58, right = options.right ?? 10, top = 8, bottom = 32;
  const across = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const up = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  svg.replaceChildren();
  for (const value of y) {
    add(svg, "line", { class: "axis", x1: left, x2: width - right, y1: up(value), y2: up(value) });
    add(svg, "text", { x: left - 5, y: up(value) + 4, "text-anchor": "end" }, options.shownY(value));
  }
  for (const [value, anchor] of [[x[0], "start"], [x[1], "end"]]) {
    add(svg, "text", { x: across(value), y: height - 18, "text-anchor": anchor }, options.shownX(value));
  }
  add(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, options.labelX);
  return { across, up, base: height - bottom };
}

const points = (pairs) => pairs.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

export function drawProfile(svg, profile) {
  const distance = [0, ...profile.distance_m];
  const mean = [0, ...profile.energy_wh];
  const std = [0, ...profile.energy_std_wh];
  const low = mean.map((value, i) => value - 1.645 * std[i]);
  const high = mean.map((value, i) => value + 1.645 * std[i]);
  const range = [Math.min(0, ...low), Math.max(...high, 1)];
  const last = distance.at(-1);
  const { across, up, base } = frame(svg, [0, last], range, {
    shownX: (value) => `${(value / 1000).toFixed(1)} km`,
    shownY: (value) => `${number(value)} Wh`,
    labelX: "grey: height",
  });
  if (range[0] < 0) add(svg, "line", { class: "axis", x1: across(0), x2: across(last), y1: up(0), y2: up(0) });
  const heights = [profile.height_m[0], ...profile.height_m];
  const lowest = Math.min(...heights), spread = Math.max(...heights) - lowest || 1;
  const hill = heights.map((value, i) => [across(distance[i]), base - 8 - 60 * ((value - lowest) / spread)]);
  add(svg, "polygon", { class: "height", points: points([[across(0), base], ...hill, [across(last), base]]) });
  const band = [
    ...distance.map((value, i) => [across(value), up(high[i])]),
    ...distance.map((value, i) => [across(value), up(low[i])]).reverse(),
  ];
  add(svg, "polygon", { class: "band", points: points(band) });
  add(svg, "polyline", { class: "curve", points: points(distance.map((v, i) => [across(v), up(mean[i])])) });
  svg.setAttribute("aria-label",
    `Heights from ${number(lowest)} to ${number(lowest + spread)} metres; expected energy ` +
    `${number(mean.at(-1))} watt hours after ${(last / 1000).toFixed(1)} kilometres`);
}

/**
 * Routes between fastest and thriftiest; a dot is a button that shows its route on the map. The route that is shown is
 * always there: as one of the dots, or beside them.
 * @param {SVGElement} svg @param {any[]} routes @param {any} shown @param {string} name of the route shown, if it is none of them
 * @param {(route: any) => string} told @param {(number: number) => void} pick
 */
export function drawFront(svg, routes, shown, name, told, pick) {
  const chosen = routes.findIndex((route) => isSameWay(route, shown)), all = chosen < 0 ? [...routes, shown] : routes;
  const wide = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = 0.08 * (high - low) || 0.05 * Math.abs(high) || 1;
    return [low - room, high + room];
  };
  const focused = [...svg.querySelectorAll(".pick")].indexOf(document.activeElement);
  const { across, up } = frame(svg, wide(all.map((route) => route.minutes)), wide(all.map((route) => route.energy_wh)), {
    right: 14,
    shownX: (value) => `${number(value, 1)} min`,
    shownY: (value) => `${number(value)} Wh`,
    labelX: "each dot is a route to choose",
  });
  const place = (route) => ({ cx: across(route.minutes), cy: up(route.energy_wh) });
  const label = (element, text) => { element.setAttribute("aria-label", text); add(element, "title", {}, text); };
  add(svg, "polyline", { class: "thin", points: points(routes.map((route) => [across(route.minutes), up(route.energy_wh)])) });
  if (chosen < 0) label(add(svg, "circle", { class: "beside chosen", ...place(shown), r: 5, role: "img" }), `${name}: ${told(shown)}`);
  routes.forEach((route, i) => {
    const dot = add(svg, "circle", {
      class: i === chosen ? "pick chosen" : "pick", ...place(route), r: 7, tabindex: 0, role: "button", "aria-pressed": String(i === chosen),
    });
    label(dot, `${frontName(i, routes.length)}: ${told(route)}`);
    dot.addEventListener("click", () => pick(i));
    dot.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(i); }
    });
  });
  svg.querySelectorAll(".pick")[focused]?.focus();  // drawn anew, it is where the keyboard was
}

/** Whether two routes take the same way. */
export const isSameWay = (one, other) => one.edges.join() === other.edges.join();

export function frontName(place, count) {
  if (place === 0) return count === 1 ? "Fastest and thriftiest" : "Fastest";
  return place === count - 1 ? "Thriftiest" : `Between ${place}`;
}

/**
 * What the energy of a route is made of, as one bar: gains to the left of zero, costs to the right.
 * @param {SVGElement} svg @param {Record<string, number>} parts @param {(wh: number) => string} told
 */
export function drawParts(svg, parts, told) {
  const names = { climb_wh: "climb", rolling_wh: "tyres", drag_wh: "air", braking_wh: "braking", auxiliary_wh: "heating, lights", learned_wh: "learned" };
  const shown = Object.entries(names).map(([key, name]) => ({ name, key, wh: parts[key] })).filter(({ wh }) => Math.abs(wh) >= 0.5);
  const costs = shown.filter(({ wh }) => wh > 0).reduce((sum, { wh }) => sum + wh, 0);
  const gains = shown.filter(({ wh }) => wh < 0).reduce((sum, { wh }) => sum - wh, 0);
  const [, , width] = (svg.getAttribute("viewBox") ?? "").split(" ").map(Number);
  const scale = (width - 4) / (costs + gains || 1);
  svg.replaceChildren();
  let right = 2 + gains * scale, left = right;
  add(svg, "line", { class: "axis", x1: right, x2: right, y1: 2, y2: 34 });
  for (const { name, key, wh } of shown) {
    const wide = Math.abs(wh) * scale;
    const x = wh > 0 ? right : left - wide;
    const bar = add(svg, "rect", { class: `part ${key.replace("_wh", "")}`, x, y: 8, width: Math.max(wide - 1, 0.5), height: 20 });
    add(bar, "title", {}, `${name}: ${told(wh)}`);
    if (wh > 0) right += wide; else left -= wide;
  }
  shown.forEach(({ name, key, wh }, i) => {
    const x = 2 + (i % 3) * ((width - 4) / 3), y = 52 + Math.floor(i / 3) * 18;
    add(svg, "rect", { class: `part ${key.replace("_wh", "")}`, x, y: y - 9, width: 10, height: 10 });
    add(svg, "text", { x: x + 14, y }, `${name} ${told(wh)}`);
  });
  svg.setAttribute("aria-label", shown.map(({ name, wh }) => `${name} ${told(wh)}`).join(", "));
}

/**
 * Charge along the way with its band, the reserve, and stops.
 * @param {SVGElement} svg
 * @param {{ profile: { distance_m: number[] }, charge_wh: number[], charge_low_wh: number[], stops: { distance_m: number, arrives_wh: number, leaves_wh: number, name: string }[] }} plan
 * @param {{ charge_wh: number, capacity_wh: number, reserve_wh: number }} battery
 */
export function drawCharge(svg, plan, battery) {
  const distance = plan.profile.distance_m, last = distance[distance.length - 1];
  const { across, up } = frame(svg, [0, last], [0, battery.capacity_wh], {
    shownX: (value) => `${(value / 1000).toFixed(1)} km`,
    shownY: (value) => `${(value / 1000).toFixed(1)} kWh`,
    labelX: "dashed: reserve",
  });
  add(svg, "line", { class: "reserve", x1: across(0), x2: across(last), y1: up(battery.reserve_wh), y2: up(battery.reserve_wh) });
  const mean = [[0, battery.charge_wh, battery.charge_wh], ...distance.map((x, i) => [x, plan.charge_wh[i], plan.charge_low_wh[i]])];
  for (const stop of plan.stops) {
    const place = mean.findIndex(([x]) => x > stop.distance_m + 0.05);
    mean.splice(place < 0 ? mean.length : place, 0, [stop.distance_m, stop.leaves_wh, stop.leaves_wh]);
  }
  const clip = (value) => Math.min(Math.max(value, 0), battery.capacity_wh);
  const band = [...mean.map(([x, y]) => [across(x), up(clip(y))]), ...mean.map(([x, , y]) => [across(x), up(clip(y))]).reverse()];
  add(svg, "polygon", { class: "band", points: points(band) });
  add(svg, "polyline", { class: "curve", points: points(mean.map(([x, y]) => [across(x), up(clip(y))])) });
  for (const stop of plan.stops) add(add(svg, "circle", { class: "stop", cx: across(stop.distance_m), cy: up(clip(stop.leaves_wh)), r: 5 }), "title", {}, stop.name);
  svg.setAttribute("aria-label", plan.stops.length
    ? `Charge along the way with ${plan.stops.length} stops: ${plan.stops.map((stop) => `${stop.name}, from ${(stop.arrives_wh / 1000).toFixed(1)} to ${(stop.leaves_wh / 1000).toFixed(1)} kWh`).join("; ")}`
    : "Charge along the way, without a stop");
}

export function drawRegret(svg, trips) {
  if (!trips.length) {
    svg.replaceChildren();
    svg.setAttribute("aria-label", "No trip has been driven yet");
    return;
  }
  const extra = trips.map((trip) => 100 * (trip.true_wh - trip.best_possible_wh) / Math.max(Math.abs(trip.best_possible_wh), 1));
  const window = 20;
  const smooth = extra.map((_, i) => {
    const some = extra.slice(Math.max(0, i - window + 1), i + 1);
    return some.reduce((sum, value) => sum + value, 0) / some.length;
  });
  // one bad trip must not flatten all others
  const sorted = [...extra].sort((a, b) => a - b);
  const top = Math.max(1.3 * sorted[Math.floor(0.95 * (sorted.length - 1))], 1.2 * Math.max(...smooth.slice(-window)), 3);
  const first = trips[0].number, last = Math.max(trips.at(-1).number, first + 1);
  const { across, up } = frame(svg, [first, last], [0, top], {
    shownX: (value) => String(value),
    shownY: (value) => `${Math.round(value)} %`,
    labelX: `trip; line: mean of ${window}`,
  });
  extra.forEach((value, i) => {
    add(svg, "circle", { class: "dot", cx: across(trips[i].number), cy: up(Math.min(value, top)), r: 2.2 });
  });
  add(svg, "polyline", { class: "curve", points: points(smooth.map((v, i) => [across(trips[i].number), up(Math.min(v, top))])) });
  svg.setAttribute("aria-label",
    `Over the last ${Math.min(window, extra.length)} of ${extra.length} trips, ` +
    `${smooth.at(-1).toFixed(1)} per cent more energy than the best possible routes`);
}

export function drawCalibration(svg, surprises) {
  const edges = Array.from({ length: 13 }, (_, i) => -3 + i / 2);
  const counts = edges.slice(0, -1).map((edge, i) => surprises.filter((z) =>
    (i === 0 || z >= edge) && (i === edges.length - 2 || z < edges[i + 1])).length / surprises.length);
  const normal = (z) => 0.5 * Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
  const { across, up, base } = frame(svg, [-3, 3], [0, Math.max(...counts, 0.2)], {
    shownX: (value) => number(value),
    shownY: (value) => `${Math.round(100 * value)} %`,
    labelX: "line: as it should be",
  });
  counts.forEach((count, i) => {
    const x = across(edges[i]) + 1;
    add(svg, "rect", { class: "bar", x, y: up(count), width: across(edges[i + 1]) - x, height: base - up(count) });
  });
  const curve = Array.from({ length: 61 }, (_, i) => -3 + i / 10).map((z) => [across(z), up(normal(z))]);
  add(svg, "polyline", { class: "curve", points: points(curve) });
  const inside = surprises.filter((z) => Math.abs(z) <= 1.645).length / surprises.length;
  svg.setAttribute("aria-label", `${Math.round(100 * inside)} per cent of ${surprises.length} trips were inside the 90 per cent interval`);
}
