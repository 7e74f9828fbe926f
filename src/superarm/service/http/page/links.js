// What is seen as a link, and routes as files.

/**
 * @typedef {{ longitude: number, latitude: number } | string} Place
 * @typedef {{ start?: Place, goal?: Place, mode?: string, vehicle?: string, layer?: string, view?: number[] }} Seen
 * @typedef {{ geometry: { coordinates: number[][] }, length_m: number, energy_wh: number, minutes: number,
 *   profile: { height_m: number[] } }} FileRoute
 */

/** A point as links write it, so that every question about it is about the same one. @param {{ longitude: number, latitude: number }} point */
export const rounded = ({ longitude, latitude }) => ({ longitude: Number(longitude.toFixed(6)), latitude: Number(latitude.toFixed(6)) });

/** @param {Place} place */
export const placeText = (place) =>
  typeof place === "string" ? place : `${place.longitude.toFixed(6)},${place.latitude.toFixed(6)}`;

/** @param {string} text @returns {Place} */
export function placeOf(text) {
  const found = /^(-?\d{1,3}(?:\.\d+)?),(-?\d{1,2}(?:\.\d+)?)$/.exec(text);
  if (!found) return text;
  const [longitude, latitude] = [Number(found[1]), Number(found[2])];
  return Math.abs(longitude) <= 180 && Math.abs(latitude) <= 90 ? { longitude, latitude } : text;
}

/** The part of a link after #. @param {Seen} seen */
export function written(seen) {
  const words = new URLSearchParams();
  if (seen.start) words.set("from", placeText(seen.start));
  if (seen.goal) words.set("to", placeText(seen.goal));
  if (seen.mode) words.set("route", seen.mode);
  if (seen.vehicle) words.set("vehicle", seen.vehicle);
  if (seen.layer) words.set("layer", seen.layer);
  if (seen.view) words.set("view", seen.view.map((value) => value.toFixed(5)).join(","));
  return words.toString();
}

/** @param {string} hash @returns {Seen} */
export function read(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {Seen} */
  const seen = {};
  const from = words.get("from"), to = words.get("to");
  if (from) seen.start = placeOf(from);
  if (to) seen.goal = placeOf(to);
  seen.mode = words.get("route") ?? undefined;
  seen.vehicle = words.get("vehicle") ?? undefined;
  seen.layer = words.get("layer") ?? undefined;
  const view = (words.get("view") ?? "").split(",").map(Number);
  if (view.length === 3 && view.every(Number.isFinite)) seen.view = view;
  return seen;
}

const escaped = (/** @type {string} */ text) =>
  text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** @param {FileRoute} route @param {string} name */
export function gpx(route, name) {
  const points = route.geometry.coordinates.map(([lng, lat]) => `<trkpt lat="${lat}" lon="${lng}"/>`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.1" creator="Superarm" xmlns="http://www.topografix.com/GPX/1/1">` +
    `<trk><name>${escaped(name)}</name><trkseg>${points.join("")}</trkseg></trk></gpx>\n`;
}

/** @param {FileRoute} route @param {string} name */
export function geojson(route, name) {
  const properties = { name, length_m: route.length_m, energy_wh: route.energy_wh, minutes: route.minutes };
  return JSON.stringify({ type: "FeatureCollection", features: [{ type: "Feature", properties, geometry: route.geometry }] });
}
