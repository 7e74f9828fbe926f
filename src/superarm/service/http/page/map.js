// The network as a map: water, roads by class above it, fog over what is not known, routes, areas, stations and cars above.

import * as maplibre from "/page/vendor/maplibre-gl.mjs";

/**
 * @typedef {{ type: string, id: number, geometry: { type: string, coordinates: number[][] }, properties: Record<string, any> }} Road
 * @typedef {{ name: string, edges: number, left_out: number, water: number, features: Road[] }} Network
 * @typedef {{ lng: number, lat: number }} Point
 */

// from viridis, without the end that would vanish on the background
const RAMPS = {
  light: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151"],
  dark: ["#3b6fb6", "#2a9d9d", "#35b779", "#a5db36", "#fde725"],
};
const DIVERGING = { light: ["#1b6ca8", "#8fbcd4", "#d9dde0", "#eba98a", "#b5341f"], dark: ["#5fb4f0", "#4a7f9e", "#4a545d", "#b8745a", "#ff8f6b"] };

export const theme = () => (document.documentElement.classList.contains("dark") ? "dark" : "light");
/** @param {boolean} [diverging] */
export const ramp = (diverging) => (diverging ? DIVERGING : RAMPS)[theme()];

const colour = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const lines = (/** @type {{ geometry: any }[]} */ routes) => ({
  type: "FeatureCollection",
  features: routes.map((route) => ({ type: "Feature", properties: {}, geometry: route.geometry })),
});
const none = { type: "FeatureCollection", features: [] };

// wider the more important: a width at two zooms for every rank
const RANK = ["match", ["get", "rank"], 5, 2.1, 4, 1.6, 3, 1.25, 2, 1.0, 0.8];
const wide = (/** @type {number} */ least, /** @type {number} */ most, /** @type {number} */ more = 0) => [
  "interpolate", ["exponential", 1.6], ["zoom"],
  11, ["+", more, ["*", least, RANK]], 17, ["+", more, ["*", most, RANK]],
];
const plainWide = (/** @type {number} */ least, /** @type {number} */ most) => ["interpolate", ["exponential", 1.6], ["zoom"], 11, least, 17, most];
// two directions of a road lie beside each other, a hairline between; a one-way road lies in the middle
const beside = [
  "interpolate", ["exponential", 1.6], ["zoom"],
  11, ["*", ["get", "both"], ["*", 0.55, RANK]], 17, ["*", ["get", "both"], ["+", 0.4, ["*", 3, RANK]]],
];

// rivers are wider than canals, and these than streams
const FLOW = ["match", ["get", "kind"], "river", 2.4, "canal", 1.6, 1];
const flowing = ["interpolate", ["exponential", 1.6], ["zoom"], 10, ["*", 0.5, FLOW], 13, ["*", 0.9, FLOW], 17, ["*", 2.6, FLOW]];

const foggy = (/** @type {number} */ share) => ["interpolate", ["linear"], ["zoom"], 10, 3 * share, 13, 11 * share, 15, 28 * share, 18, 90 * share];

export function hasWebGL() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl2"));
  } catch {
    return false;
  }
}

/** Mark the roads that have another direction. @param {Road[]} roads */
export function markBoth(roads) {
  const key = (/** @type {number[]} */ a, /** @type {number[]} */ b) => `${a}|${b}`;
  const ends = new Set(roads.map(({ geometry: { coordinates: line } }) => key(line[0], line[line.length - 1])));
  for (const { geometry: { coordinates: line }, properties } of roads) {
    properties.both = ends.has(key(line[line.length - 1], line[0])) ? 1 : 0;
  }
}

export class RoadMap {
  /**
   * @param {string} container
   * @param {Network} network
   * @param {{ tiles: string | null, attribution: string }} background
   * @param {{ click: (point: Point) => void, moved: (which: string, point: Point) => void, hover: (road: number | null, point?: Point) => void, view: () => void }} events
   */
  constructor(container, network, background, events) {
    this.background = background;
    this.network = network;
    this.events = events;
    /** @type {Record<string, any>} */
    this.pins = {};
    /** @type {Map<number, Record<string, number>>} */
    this.shown = new Map();
    /** @type {{ line: number[][], began: number, took: number }[]} */
    this.cars = [];
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    markBoth(network.features);
    this.map = new maplibre.Map({
      container,
      style: { version: 8, sources: {}, layers: [{ id: "back", type: "background", paint: {} }] },
      bounds: boundsOf(network.features),
      fitBoundsOptions: { padding: 30 },
      attributionControl: background.attribution ? { customAttribution: background.attribution } : false,
      dragRotate: false,
      pitchWithRotate: false,
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new maplibre.NavigationControl({ showCompass: false }), "top-right");
    this.map.addControl(new maplibre.ScaleControl({ maxWidth: 100 }), "bottom-right");
    this.map.getCanvas().setAttribute("aria-label", "Map of the roads; arrow keys move it, plus and minus zoom");
    this.map.on("click", (/** @type {any} */ event) => events.click(event.lngLat));
    this.map.on("moveend", () => events.view());
    this.map.on("mousemove", "roads", (/** @type {any} */ event) => events.hover(Number(event.features[0].id), event.point));
    this.map.on("mouseleave", "roads", () => events.hover(null));
    this.ready = new Promise((resolve) => this.map.once("load", resolve)).then(() => this.#addLayers());
  }

  #addLayers() {
    const map = this.map;
    if (this.background.tiles) {
      map.addSource("tiles", { type: "raster", tiles: [this.background.tiles], tileSize: 256 });
      map.addLayer({ id: "tiles", type: "raster", source: "tiles", paint: { "raster-saturation": -0.6, "raster-opacity": 0.6 } });
    }
    map.addSource("roads", { type: "geojson", data: this.network, tolerance: 0.2 });
    for (const name of ["water", "reach", "others", "route", "stations", "cars"]) map.addSource(name, { type: "geojson", data: none });
    const round = { "line-cap": "round", "line-join": "round", "line-sort-key": ["get", "rank"] };
    const plain = { "line-cap": "round", "line-join": "round" };
    map.addLayer({ id: "water", type: "fill", source: "water", filter: ["==", ["get", "kind"], "area"], paint: {} });
    map.addLayer({ id: "streams", type: "line", source: "water", filter: ["!=", ["get", "kind"], "area"], layout: plain, paint: { "line-width": flowing } });
    map.addLayer({ id: "reach", type: "fill", source: "reach", paint: { "fill-opacity": 0.16 } });
    map.addLayer({ id: "reach-line", type: "line", source: "reach", paint: { "line-width": 1.5, "line-opacity": 0.8 } });
    map.addLayer({ id: "casing", type: "line", source: "roads", minzoom: 12, layout: round, paint: { "line-width": wide(0.9, 5.4, 1.6), "line-offset": beside } });
    map.addLayer({ id: "roads", type: "line", source: "roads", layout: round, paint: { "line-width": wide(0.9, 5.4), "line-offset": beside } });
    map.addLayer({ id: "fog", type: "line", source: "roads", minzoom: 12.5, layout: plain, paint: { "line-width": foggy(1), "line-blur": foggy(0.55) } });
    // drawn with the browser's own fonts: no glyphs are loaded from anywhere
    map.addLayer({ id: "names", type: "symbol", source: "roads", minzoom: 13, filter: ["!=", ["get", "street"], ""],
      layout: { "text-field": ["get", "street"], "symbol-placement": "line", "text-size": 12, "text-font": ["sans-serif"], "text-padding": 8, "symbol-sort-key": ["-", ["get", "rank"]] },
      paint: { "text-halo-width": 1.5 } });
    map.addLayer({ id: "others", type: "line", source: "others", layout: plain, paint: { "line-width": plainWide(2.6, 7), "line-dasharray": [1, 1.7] } });
    map.addLayer({ id: "route-casing", type: "line", source: "route", layout: plain, paint: { "line-width": plainWide(6.5, 14) } });
    map.addLayer({ id: "route", type: "line", source: "route", layout: plain, paint: { "line-width": plainWide(4, 9) } });
    map.addLayer({ id: "stations", type: "circle", source: "stations", paint: {
      "circle-radius": ["case", ["get", "chosen"], 9, 5], "circle-stroke-width": 2 } });
    map.addLayer({ id: "cars", type: "circle", source: "cars", paint: { "circle-radius": plainWide(3.2, 7), "circle-stroke-width": 1.5 } });
    this.paint("fog");
  }

  /** Colours of the theme, for a layer of values. @param {string} layer @param {boolean} [diverging] */
  paint(layer, diverging = false) {
    this.layer = layer;
    const map = this.map;
    const stops = ramp(diverging).flatMap((shade, i, all) => [i / (all.length - 1), shade]);
    const value = ["coalesce", ["feature-state", "value"], diverging ? 0.5 : 0];
    const plain = ["match", ["get", "rank"], 5, colour("--road-5"), 4, colour("--road-4"), 3, colour("--road-3"), colour("--road")];
    // from afar roads themselves pale in the fog: blurred lines would take too long to draw
    const fog = ["coalesce", ["feature-state", "fog"], 1];
    const pale = ["interpolate", ["linear"], fog, 0.15, colour("--known"), 1, colour("--fog")];
    const coloured = ["interpolate", ["linear"], value, ...stops];
    const [afar, near] = { fog: [pale, plain], plain: [plain, plain] }[layer] ?? [coloured, coloured];
    const set = (/** @type {string} */ id, /** @type {string} */ name, /** @type {any} */ to) => map.setPaintProperty(id, name, to);
    set("back", "background-color", colour("--map"));
    set("water", "fill-color", colour("--water"));
    set("streams", "line-color", colour("--water"));
    set("casing", "line-color", colour("--road-casing"));
    // always by zoom: the map library does not take a colour by zoom back for one without
    set("roads", "line-color", ["interpolate", ["linear"], ["zoom"], 12, afar, 12.8, near]);
    set("fog", "line-color", colour("--fog"));
    set("fog", "line-opacity", layer === "fog" ? ["interpolate", ["linear"], fog, 0.15, 0, 1, 0.86] : 0);
    set("names", "text-color", colour("--fore"));
    set("names", "text-halo-color", colour("--back"));
    set("others", "line-color", colour("--other"));
    set("route", "line-color", colour("--route"));
    set("route-casing", "line-color", colour("--back"));
    set("reach", "fill-color", colour("--reach"));
    set("reach-line", "line-color", colour("--reach"));
    set("stations", "circle-color", ["case", ["get", "chosen"], colour("--route"), colour("--station")]);
    set("stations", "circle-stroke-color", colour("--back"));
    set("cars", "circle-color", colour("--car"));
    set("cars", "circle-stroke-color", colour("--back"));
  }

  /** Other roads, for another part of the map. @param {Network} network */
  setNetwork(network) {
    markBoth(network.features);
    this.network = network;
    this.shown = new Map();
    this.map.getSource("roads").setData(network);
  }

  /** The water of a part of the map. @param {any} water GeoJSON */
  showWater(water) {
    this.map.getSource("water").setData(water);
  }

  /** Values of roads by their ids; only what has changed is set. @param {string} name @param {Map<number, number>} values */
  show(name, values) {
    for (const [id, value] of values) {
      const known = this.shown.get(id) ?? {};
      if (Math.abs((known[name] ?? NaN) - value) < 0.004) continue;
      this.shown.set(id, { ...known, [name]: value });
      this.map.setFeatureState({ source: "roads", id }, { [name]: value });
    }
  }

  /** @param {{ geometry: any } | null} chosen @param {{ geometry: any }[]} others @param {boolean} [stay] */
  showRoutes(chosen, others, stay = false) {
    this.map.getSource("route").setData(lines(chosen ? [chosen] : []));
    this.map.getSource("others").setData(lines(others));
    if (!chosen || stay) return;
    const small = innerWidth < 760;
    this.map.fitBounds(boundsOf([chosen]), { padding: small ? { top: 50, bottom: 60, left: 40, right: 40 } : 70, maxZoom: 16, animate: !this.still });
  }

  /** @param {any} areas GeoJSON, or nothing */
  showReach(areas) {
    this.map.getSource("reach").setData(areas ?? none);
    if (areas?.features.length) {
      const rings = areas.features.flatMap((/** @type {any} */ one) => one.geometry.coordinates.flat());
      if (rings.length) this.map.fitBounds(boundsOf(rings.map((/** @type {any} */ ring) => ({ geometry: { coordinates: ring } }))), { padding: 40, animate: !this.still });
    }
  }

  /** @param {any} stations GeoJSON @param {number[]} chosen */
  showStations(stations, chosen) {
    const features = stations.features.map((/** @type {any} */ one) => ({ ...one, properties: { ...one.properties, chosen: chosen.includes(one.id) } }));
    this.map.getSource("stations").setData({ type: "FeatureCollection", features });
  }

  /** Let a car drive along some roads. @param {number[][]} line @param {number} took seconds on the screen */
  drive(line, took) {
    if (line.length < 2 || this.still) return;
    this.cars.push({ line, began: performance.now(), took: took * 1000 });
    if (this.cars.length === 1) requestAnimationFrame(() => this.#moveCars());
  }

  #moveCars() {
    const now = performance.now();
    this.cars = this.cars.filter((car) => now - car.began < car.took).slice(-60);
    const features = this.cars.map((car) => ({
      type: "Feature", properties: {}, geometry: { type: "Point", coordinates: along(car.line, (now - car.began) / car.took) },
    }));
    this.map.getSource("cars").setData({ type: "FeatureCollection", features });
    if (this.cars.length) requestAnimationFrame(() => this.#moveCars());
  }

  /** @param {string} which @param {Point | null} place */
  pin(which, place) {
    if (!place) {
      this.pins[which]?.remove();
      delete this.pins[which];
      return;
    }
    if (!this.pins[which]) {
      const element = document.createElement("div");
      element.className = "pin";
      element.textContent = which === "start" ? "A" : "B";
      element.title = "Drag to move";
      const marker = new maplibre.Marker({ element, draggable: true }).setLngLat(place).addTo(this.map);
      marker.on("dragend", () => this.events.moved(which, marker.getLngLat()));
      this.pins[which] = marker;
    }
    this.pins[which].setLngLat(place);
  }

  /** West, south, east, north of what is seen. */
  box() {
    const bounds = this.map.getBounds();
    return [bounds.getWest(), bounds.getSouth(), bounds.getEast(), bounds.getNorth()];
  }
}

/** The point at a share of a line, by its length in degrees. @param {number[][]} line @param {number} share */
export function along(line, share) {
  const steps = line.slice(1).map(([x, y], i) => Math.hypot(x - line[i][0], y - line[i][1]));
  let left = Math.min(Math.max(share, 0), 1) * steps.reduce((sum, step) => sum + step, 0);
  for (let i = 0; i < steps.length; i += 1) {
    if (left <= steps[i] && steps[i] > 0) {
      const part = left / steps[i];
      return [line[i][0] + part * (line[i + 1][0] - line[i][0]), line[i][1] + part * (line[i + 1][1] - line[i][1])];
    }
    left -= steps[i];
  }
  return line[line.length - 1];
}

/** @param {{ geometry: { coordinates: number[][] } }[]} features @returns {[number, number, number, number]} */
export function boundsOf(features) {
  /** @type {[number, number, number, number]} */
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const feature of features) {
    for (const [x, y] of feature.geometry.coordinates) {
      box[0] = Math.min(box[0], x);
      box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x);
      box[3] = Math.max(box[3], y);
    }
  }
  return box;
}
