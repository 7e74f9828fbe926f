// Numbers as people read them. No page in here: everything is tested without a browser.

/**
 * @typedef {"auto" | "kwh" | "per100"} EnergyUnit
 * @typedef {"km" | "mi"} LengthUnit
 * @typedef {{ energy: EnergyUnit, length: LengthUnit }} Units
 */

const METRES_PER_MILE = 1609.344;

/**
 * An energy; per 100 km or miles if so wanted and the length is known.
 * @param {number} wh
 * @param {Units} units
 * @param {number} [length_m]
 */
export function energy(wh, units, length_m) {
  if (units.energy === "per100" && length_m) {
    const hundred = units.length === "mi" ? METRES_PER_MILE * 100 : 100000;
    return `${((wh / 1000) * (hundred / length_m)).toFixed(1)} kWh/100 ${units.length}`;
  }
  if (units.energy === "kwh") return `${(wh / 1000).toFixed(Math.abs(wh) < 10000 ? 3 : 2)} kWh`;
  return Math.abs(wh) >= 10000 ? `${(wh / 1000).toFixed(2)} kWh` : `${Math.round(wh)} Wh`;
}

/** @param {number} metres @param {Units} units */
export function distance(metres, units) {
  const amount = units.length === "mi" ? metres / METRES_PER_MILE : metres / 1000;
  return `${amount.toFixed(2)} ${units.length}`;
}

/** @param {number} value */
export function minutes(value) {
  if (value < 100) return `${value.toFixed(value < 10 ? 1 : 0)} min`;
  return `${Math.floor(value / 60)} h ${Math.round(value % 60)} min`;
}

/** The time of day, as the server writes it: local where the roads are. @param {string} text */
export const clock = (text) => text.slice(11, 16);

/** @param {number} share */
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;

/** A number with its sign, never a minus zero. @param {number} value */
export function signed(value, digits = 0) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}
