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

/** A total with its error in one unit: "1.23 ± 0.05". @param {Saved} saved @param {number} unit @param {number} digits */
export function shown(saved, unit, digits) {
  const error = Number.isFinite(saved.totalError) ? ` ± ${(saved.totalError / unit).toFixed(digits)}` : "";
  return `${(saved.total / unit).toFixed(digits)}${error}`;
}
