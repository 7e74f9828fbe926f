// Units, links, comparisons and snapshots of the page, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

const page = new URL("../../src/superarm/service/http/page/", import.meta.url);
const units = await import(new URL("units.js", page).href);
const comparison = await import(new URL("comparison.js", page).href);
const links = await import(new URL("links.js", page).href);
const snapshots = await import(new URL("snapshots.js", page).href);
const water = await import(new URL("water.js", page).href);

test("water is asked for in boxes that hold the view, and stay while it moves a little", () => {
  for (const [x, y, span] of [[1.5, 42.5, 0.3], [-0.01, -0.02, 0.001], [179, -80, 12], [0, 0, 0]]) {
    const [west, south, east, north] = water.waterBox([x, y, x + span, y + span / 2]);
    assert.ok(west <= x && south <= y && east >= x + span && north >= y + span / 2);
    assert.ok(east - west <= Math.max(3.01 * span, 0.002));
  }
  assert.equal(water.waterPath([1.51, 42.51, 1.69, 42.6]), water.waterPath([1.515, 42.515, 1.695, 42.605]));
  assert.match(water.waterPath([-0.1, 0.1, 0.1, 0.2]), /^\/v1\/water\?bbox=-?[\d.]+,[\d.]+,[\d.]+,[\d.]+$/);
});

test("energies are told in the unit that was chosen", () => {
  const auto = { energy: "auto", length: "km" };
  assert.equal(units.energy(251.4, auto), "251 Wh");
  assert.equal(units.energy(-12345, auto), "−12.35 kWh");
  assert.equal(units.energy(500, { energy: "kwh", length: "km" }), "0.500 kWh");
  assert.equal(units.energy(1500, { energy: "per100", length: "km" }, 10_000), "15.0 kWh/100 km");
  assert.equal(units.energy(1500, { energy: "per100", length: "mi" }, 1609.344), "150.0 kWh/100 mi");
  assert.equal(units.energy(1500, { energy: "per100", length: "km" }, 0), "1500 Wh");
});

test("per hundred units is the same consumption in both lengths", () => {
  for (const [wh, metres] of [[150, 900], [6000, 41_000], [-40, 300]]) {
    const per = (length) => Number.parseFloat(units.energy(wh, { energy: "per100", length }, metres).replace("−", "-"));
    assert.ok(Math.abs(per("mi") - per("km") * 1.609344) <= 0.06 * 1.61 + 0.05);
  }
});

test("minutes, lengths and times of day", () => {
  assert.equal(units.minutes(3.14), "3.1 min");
  assert.equal(units.minutes(42.4), "42 min");
  assert.equal(units.minutes(125), "2 h 5 min");
  assert.equal(units.minutes(119.7), "2 h 0 min");
  assert.equal(units.minutes(99.4), "99 min");
  assert.equal(units.distance(1609.344, { energy: "auto", length: "mi" }), "1.00 mi");
  assert.equal(units.clock("2026-03-01T08:15:00+01:00"), "08:15");
});

test("what is seen comes back from its link", () => {
  const seen = {
    start: { longitude: 6.123457, latitude: 49.6 }, goal: "edge,with &odd=signs#", mode: "best", vehicle: "van", layer: "fog", view: [6.1, 49.6, 13.25],
  };
  assert.deepEqual(links.read(`#${links.written(seen)}`), seen);
  assert.deepEqual(links.read(""), { mode: undefined, vehicle: undefined, layer: undefined });
  assert.equal(links.read("#view=1,2").view, undefined);
  assert.equal(links.placeOf("200,10"), "200,10");  // no such place
});

test("files hold the route, and names do no harm", () => {
  const route = { geometry: { type: "LineString", coordinates: [[6.1, 49.6], [6.2, 49.7]] }, length_m: 10, energy_wh: 3, minutes: 1, profile: { height_m: [] } };
  const gpx = links.gpx(route, `<script>&"'`);
  assert.ok(gpx.includes('<trkpt lat="49.6" lon="6.1"/>'));
  assert.ok(!gpx.includes("<script>"));
  assert.deepEqual(JSON.parse(links.geojson(route, "a")).features[0].geometry, route.geometry);
});

test("numbers have a true minus, and zero has none", () => {
  assert.equal(units.number(-12), "−12");
  assert.equal(units.number(-0.2), "0");
  assert.equal(units.number(3.04, 1), "3.0");
  assert.equal(units.energy(-0.3, { energy: "auto", length: "km" }), "0 Wh");
  for (const energy of ["auto", "kwh", "per100"]) {
    for (const wh of [-23, -4_000, -12_345]) assert.match(units.energy(wh, { energy, length: "km" }, 5000), /^−[\d.]+ k?Wh/);
  }
  assert.equal(units.withMinus("between -12 and 3 (-4.5)"), "between −12 and 3 (−4.5)");
  assert.equal(units.withMinus("no edge '-s384', 90-95 %, 2026-03-01"), "no edge '-s384', 90-95 %, 2026-03-01");
});

test("trips are compared by totals with the standard error of a sum", () => {
  const trips = [1, 2, 3, 6].map((wh) => ({ true_wh: 10, physics_wh: 10 + wh, fastest_wh: 20, true_minutes: 5, physics_minutes: 4, fastest_minutes: 3 }));
  const { kwh, minutes } = comparison.compareWith(trips, "physics");
  const variance = [1, 2, 3, 6].reduce((sum, value) => sum + (value - 3) ** 2, 0) / 3;
  assert.ok(Math.abs(kwh.total + 0.012) < 1e-15);
  assert.ok(Math.abs(kwh.error - Math.sqrt(variance * 4) / 1000) < 1e-15);
  assert.deepEqual(minutes, { total: 4, error: 0 });
  assert.equal(comparison.totalOf([5]).total, 5);
  assert.ok(Number.isNaN(comparison.totalOf([5]).error));  // one trip says nothing of its error
});

test("a difference is said as less or more, so that a loss reads as a loss", () => {
  const inWords = comparison.lessOrMore;
  assert.equal(inWords({ total: 0.2, error: 0.08 }, "kWh", "energy", 2), "0.20 ± 0.08 kWh more energy");
  assert.equal(inWords({ total: -6.74, error: 1.13 }, "kWh", "energy", 2), "6.74 ± 1.13 kWh less energy");
  assert.equal(inWords({ total: 1002.3, error: 45 }, "min", "time", 0), "1,002 ± 45 min more time");
  assert.equal(inWords({ total: -2.3, error: NaN }, "min", "time", 1), "2.3 min less time");
  assert.equal(inWords({ total: -0.004, error: 0.08 }, "kWh", "energy", 2), "the same energy (± 0.08 kWh)");
  assert.equal(inWords({ total: 0, error: NaN }, "kWh", "energy", 2), "the same energy");
  const trips = [3, 5].map((more) => ({ true_wh: 1000 * more, physics_wh: 0, fastest_wh: 9000, true_minutes: more, physics_minutes: 9, fastest_minutes: 0 }));
  for (const [rival, energy, time] of [["physics", "more", "less"], ["fastest", "less", "more"]]) {
    const { kwh, minutes } = comparison.compareWith(trips, rival);
    assert.ok(inWords(kwh, "kWh", "energy", 2).endsWith(`${energy} energy`));
    assert.ok(inWords(minutes, "min", "time", 0).endsWith(`${time} time`));
  }
});

test("snapshots keep both ends, however many there are", () => {
  let kept = [];
  for (let trips = 0; trips < 1000; trips += 1) kept = snapshots.withOne(kept, { trips, fog: new Map(), correction: new Map() });
  assert.ok(kept.length <= snapshots.MOST);
  assert.equal(kept[0].trips, 0);
  assert.equal(kept.at(-1).trips, 999);
  assert.ok(kept.every((one, i) => i === 0 || one.trips > kept[i - 1].trips));
});

test("the moment that is looked at stays while snapshots come and go", () => {
  const at = (...all) => all.map((trips) => ({ trips }));
  assert.equal(snapshots.placeOf(at(0, 10, 20, 30), 20), 2);
  assert.equal(snapshots.placeOf(at(0, 10, 30), 20), 1);  // the last one before
  assert.equal(snapshots.placeOf(at(0, 50), 20), 0);
  assert.equal(snapshots.placeOf(at(5, 50), 0), 0);
});

test("fog is one before the first trip and never above", () => {
  const belief = { edge: [4, 9], energy_wh: [12, 3], energy_std_wh: [1, 9], physics_wh: [10, 5], prior_std_wh: [2, 3], count: [3, 0], trips_learned: 7 };
  const now = snapshots.snapshotOf(belief);
  assert.deepEqual([...now.fog], [[4, 0.5], [9, 1]]);
  assert.deepEqual([...now.correction], [[4, 2], [9, -2]]);
  assert.deepEqual([...now.count], [[4, 3], [9, 0]]);
  assert.ok([...snapshots.beforehand(belief).fog.values()].every((value) => value === 1));
  for (const nothing of ["correction", "count"]) assert.ok([...snapshots.beforehand(belief)[nothing].values()].every((value) => value === 0));
});
