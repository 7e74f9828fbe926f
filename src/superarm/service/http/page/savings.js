// What learning has saved, with its error.

/**
 * @typedef {{ true_wh: number, true_minutes: number, physics_wh: number, physics_minutes: number,
 *   fastest_wh: number, fastest_minutes: number }} Judged
 * @typedef {{ mean: number, error: number, total: number, totalError: number, count: number }} Saved
 */

/** Mean and total of some numbers, with standard errors. @param {number[]} values @returns {Saved} */
export function summed(values) {
  const count = values.length;
  const total = values.reduce((sum, value) => sum + value, 0);
  const mean = count ? total / count : 0;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const error = count > 1 ? Math.sqrt(squares / (count - 1) / count) : NaN;
  return { mean, error, total, totalError: error * count, count };
}

/** Energy (Wh) and minutes saved against a route that learns nothing. @param {Judged[]} trips @param {"physics" | "fastest"} rival */
export function against(trips, rival) {
  return {
    wh: summed(trips.map((trip) => trip[`${rival}_wh`] - trip.true_wh)),
    minutes: summed(trips.map((trip) => trip[`${rival}_minutes`] - trip.true_minutes)),
  };
}

/**
 * What the service says was saved by trips that were driven both ways, as above.
 * @param {{ trips: number, energy_wh: number, energy_error_wh: number | null, minutes: number, minutes_error: number | null }} given
 */
export function measured(given) {
  const saved = (/** @type {number} */ total, /** @type {number | null} */ error) => ({
    mean: total / given.trips, error: (error ?? NaN) / given.trips, total, totalError: error ?? NaN, count: given.trips,
  });
  return { wh: saved(given.energy_wh, given.energy_error_wh), minutes: saved(given.minutes, given.minutes_error) };
}

/** A total with its error in one unit: "1.23 ± 0.05". @param {Saved} saved @param {number} unit @param {number} digits */
export function shown(saved, unit, digits) {
  const error = Number.isFinite(saved.totalError) ? ` ± ${(saved.totalError / unit).toFixed(digits)}` : "";
  return `${(saved.total / unit).toFixed(digits)}${error}`;
}
