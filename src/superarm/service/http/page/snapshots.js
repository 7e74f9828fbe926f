// What was believed when: few enough snapshots to keep, close enough to watch learning.

/**
 * @typedef {{ trips: number, fog: Map<number, number>, correction: Map<number, number>, count: Map<number, number> }} Snapshot
 * @typedef {{ edge: number[], energy_wh: number[], energy_std_wh: number[], physics_wh: number[], prior_std_wh: number[], count: number[], trips_learned: number }} Belief
 */

export const MOST = 48;

/** How much is still unknown of an edge: one before the first trip, zero if nothing. @param {Belief} belief @param {number} i */
export const fogOf = (belief, i) => (belief.prior_std_wh[i] > 0 ? Math.min(belief.energy_std_wh[i] / belief.prior_std_wh[i], 1) : 0);

/** How much dearer an edge is than physics say, in Wh. @param {Belief} belief @param {number} i */
export const correctionOf = (belief, i) => belief.energy_wh[i] - belief.physics_wh[i];

/** @param {Belief} belief @returns {Snapshot} */
export function snapshotOf(belief) {
  const fog = new Map(), correction = new Map(), count = new Map();
  belief.edge.forEach((edge, i) => {
    fog.set(edge, fogOf(belief, i));
    correction.set(edge, correctionOf(belief, i));
    count.set(edge, belief.count[i]);
  });
  return { trips: belief.trips_learned, fog, correction, count };
}

/** What was believed before the first trip. @param {Belief} belief @returns {Snapshot} */
export function beforehand(belief) {
  return {
    trips: 0,
    fog: new Map(belief.edge.map((edge) => [edge, 1])),
    correction: new Map(belief.edge.map((edge) => [edge, 0])),
    count: new Map(belief.edge.map((edge) => [edge, 0])),
  };
}

/** Snapshots with one more; if there are too many, every other one but the ends goes. @param {Snapshot[]} kept @param {Snapshot} one */
export function withOne(kept, one) {
  const last = kept.at(-1);
  const all = last && last.trips === one.trips ? [...kept.slice(0, -1), one] : [...kept, one];
  if (all.length <= MOST) return all;
  return all.filter((_, i) => i === 0 || i === all.length - 1 || i % 2 === 1);
}

/** Where the snapshot after so many trips is, or the last one before. @param {{ trips: number }[]} kept @param {number} trips */
export const placeOf = (kept, trips) => Math.max(kept.filter((one) => one.trips <= trips).length - 1, 0);
