// The network as a map: roads coloured by what is known of them, routes above, pins for both ends.

import * as maplibre from "/page/vendor/maplibre-gl.mjs";

// from viridis, without the end that would vanish on the background
const RAMPS = {
  light: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151"],
  dark: ["#3b6fb6", "#2a9d9d", "#35b779", "#a5db36", "#fde725"],
};

export const theme = () => (document.documentElement.classList.contains("dark") ? "dark" : "light");
export const ramp = () => RAMPS[theme()];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const lines = (routes) => ({
  type: "FeatureCollection",
  features: routes.map((route) => ({ type: "Feature", properties: {}, geometry: route.geometry })),
});
const wide = (least, most) => ["interpolate", ["exponential", 1.6], ["zoom"], 11, least, 17, most];

export function hasWebGL() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl2"));
  } catch {
    return false;
  }
}

export class RoadMap {
  constructor(container, network, onClick) {
    this.network = network;
    this.pins = {};
    this.map = new maplibre.Map({
      container,
      style: { version: 8, sources: {}, layers: [{ id: "back", type: "background", paint: {} }] },
      bounds: boundsOf(network.features),
      fitBoundsOptions: { padding: 30 },
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.addControl(new maplibre.NavigationControl({ showCompass: false }), "top-right");
    this.map.getCanvas().setAttribute("aria-label", "Map of the roads; arrow keys move it, plus and minus zoom");
    this.map.on("click", (event) => onClick(event.lngLat));
    this.ready = new Promise((resolve) => this.map.once("load", resolve)).then(() => this.#addLayers());
  }

  #addLayers() {
    const none = lines([]);
    this.map.addSource("roads", { type: "geojson", data: this.network, tolerance: 0.2 });
    this.map.addSource("others", { type: "geojson", data: none });
    this.map.addSource("route", { type: "geojson", data: none });
    // opposite directions lie beside each other: right-hand traffic
    const offset = wide(0.8, 5);
    const round = { "line-cap": "round", "line-join": "round" };
    this.map.addLayer({ id: "roads", type: "line", source: "roads", layout: round,
      paint: { "line-width": wide(1.3, 7), "line-offset": offset } });
    this.map.addLayer({ id: "others", type: "line", source: "others", layout: round,
      paint: { "line-width": wide(3, 9), "line-dasharray": [1, 1.6], "line-offset": offset } });
    this.map.addLayer({ id: "casing", type: "line", source: "route", layout: round,
      paint: { "line-width": wide(6, 15), "line-offset": offset } });
    this.map.addLayer({ id: "route", type: "line", source: "route", layout: round,
      paint: { "line-width": wide(3.5, 10), "line-offset": offset } });
    this.paint();
  }

  paint() {
    const stops = ramp().flatMap((shade, i, all) => [i / (all.length - 1), shade]);
    const value = ["coalesce", ["feature-state", "value"], 0];
    this.map.setPaintProperty("back", "background-color", colour("--map"));
    this.map.setPaintProperty("roads", "line-color", ["interpolate", ["linear"], value, ...stops]);
    this.map.setPaintProperty("others", "line-color", colour("--other"));
    this.map.setPaintProperty("route", "line-color", colour("--route"));
    this.map.setPaintProperty("casing", "line-color", colour("--back"));
  }

  show(values) {
    values.forEach((value, id) => this.map.setFeatureState({ source: "roads", id }, { value }));
  }

  showRoutes(chosen, others) {
    this.map.getSource("route").setData(lines(chosen ? [chosen] : []));
    this.map.getSource("others").setData(lines(others));
    if (!chosen) return;
    const box = boundsOf([chosen]);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.map.fitBounds(box, { padding: 70, maxZoom: 16, animate: !still });
  }

  pin(which, place) {
    this.pins[which]?.remove();
    delete this.pins[which];
    if (!place) return;
    const element = document.createElement("div");
    element.className = "pin";
    element.textContent = which === "start" ? "A" : "B";
    this.pins[which] = new maplibre.Marker({ element }).setLngLat(place).addTo(this.map);
  }
}

function boundsOf(features) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const feature of features) {
    for (const [x, y] of feature.geometry.coordinates) {
      box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
    }
  }
  return box;
}
