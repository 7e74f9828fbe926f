// What the routes that were driven took beside other routes. A loss reads as a loss.

/**
 * @typedef {{ true_wh: number, true_minutes: number, physics_wh: number, physics_minutes: number,
 *   fastest_wh: number, fastest_minutes: number }} Judged
 * @typedef {{ total: number, error?: number }} Difference
 */

/** The total of some numbers with its standard error, which takes two numbers at least. @param {number[]} values @returns {Difference} */
export function totalOf(values) {
  const count = values.length;
  const total = values.reduce((sum, value) => sum + value, 0);
  const squares = values.reduce((sum, value) => sum + (value - total / count) ** 2, 0);
  return { total, error: count > 1 ? Math.sqrt((squares / (count - 1)) * count) : NaN };
}

/**
 * Energy (kWh) and minutes that trips took beyond those of a route that learns nothing; negative if they took less.
 * @param {Judged[]} trips @param {"physics" | "fastest"} rival
 */
export function compareWith(trips, rival) {
  return {
    kwh: totalOf(trips.map((trip) => (trip.true_wh - trip[`${rival}_wh`]) / 1000)),
    minutes: totalOf(trips.map((trip) => trip.true_minutes - trip[`${rival}_minutes`])),
  };
}

/**
 * A difference in plain words: "0.20 ± 0.08 kWh more energy".
 * @param {Difference} difference @param {string} unit @param {string} noun @param {number} digits
 */
export function lessOrMore({ total, error = NaN }, unit, noun, digits) {
  const shown = (/** @type {number} */ value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const size = shown(Math.abs(total)), margin = Number.isFinite(error) ? `± ${shown(error)}` : "";
  if (size === shown(0)) return margin ? `the same ${noun} (${margin} ${unit})` : `the same ${noun}`;
  return `${size}${margin && ` ${margin}`} ${unit} ${total < 0 ? "less" : "more"} ${noun}`;
}
