// What all parts of the page know.

/**
 * @type {{
 *   network: import("./map.js").Network | null,
 *   roads: Map<number, import("./map.js").Road>,
 *   belief: any, map: import("./map.js").RoadMap | null,
 *   ends: Record<string, { longitude: number, latitude: number } | null>,
 *   answer: any, front: any[], plan: any, shown: number, first: any,
 *   demo: boolean, admin: boolean, learned: number, trips: any[], stations: any, stats: any,
 *   snapshots: import("./snapshots.js").Snapshot[], moment: number,
 *   units: import("./units.js").Units,
 * }}
 */
export const state = {
  network: null, roads: new Map(), belief: null, map: null, ends: {}, answer: null, front: [], plan: null, shown: 0, first: null,
  demo: false, admin: false, learned: -1, trips: [], stations: null, stats: null, snapshots: [], moment: -1,
  units: { energy: "auto", length: "km" },
};
