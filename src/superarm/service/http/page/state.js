// What all parts of the page know.

/**
 * @type {{
 *   network: import("./map.js").Network | null,
 *   roads: Map<number, import("./map.js").Road>,
 *   belief: any, map: import("./map.js").RoadMap | null,
 *   ends: Record<string, { longitude: number, latitude: number } | null>,
 *   question: { body: Record<string, any>, now: boolean } | null,
 *   answer: any, front: any[], plan: any, reach: any, shown: number, first: any,
 *   demo: boolean, admin: boolean, trips: any[], stations: any, stats: any,
 *   snapshots: import("./snapshots.js").Snapshot[], moment: number,
 *   units: import("./units.js").Units,
 * }}
 */
export const state = {
  network: null, roads: new Map(), belief: null, map: null, ends: {},
  question: null, answer: null, front: [], plan: null, reach: null, shown: 0, first: null,
  demo: false, admin: false, trips: [], stations: null, stats: null, snapshots: [], moment: -1,
  units: { energy: "auto", length: "km" },
};
