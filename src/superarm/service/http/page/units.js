// Numbers as people read them. No page in here: everything is tested without a browser.

/**
 * @typedef {"auto" | "kwh" | "per100"} EnergyUnit
 * @typedef {"km" | "mi"} LengthUnit
 * @typedef {{ energy: EnergyUnit, length: LengthUnit }} Units
 */

const METRES_PER_MILE = 1609.344;

/** A number with a true minus, and never a minus zero. @param {number} value */
export function number(value, digits = 0) {
  const size = Math.abs(value).toFixed(digits);
  return value < 0 && Number(size) > 0 ? `−${size}` : size;
}

/** Text for programs with the minus of its numbers as people read it. @param {string} text */
export const withMinus = (text) => text.replace(/(^|[\s(])-(?=\d)/g, "$1−");

/**
 * An energy; per 100 km or miles if so wanted and the length is known.
 * @param {number} wh
 * @param {Units} units
 * @param {number} [length_m]
 */
export function energy(wh, units, length_m) {
  if (units.energy === "per100" && length_m) {
    const hundred = units.length === "mi" ? METRES_PER_MILE * 100 : 100000;
    return `${number((wh / 1000) * (hundred / length_m), 1)} kWh/100 ${units.length}`;
  }
  if (units.energy === "kwh") return `${number(wh / 1000, Math.abs(wh) < 10000 ? 3 : 2)} kWh`;
  return Math.abs(wh) >= 10000 ? `${number(wh / 1000, 2)} kWh` : `${number(wh)} Wh`;
}

/** @param {number} metres @param {Units} units */
export function distance(metres, units) {
  const amount = units.length === "mi" ? metres / METRES_PER_MILE : metres / 1000;
  return `${amount.toFixed(2)} ${units.length}`;
}

/** @param {number} value */
export function minutes(value) {
  const whole = Math.round(value);
  if (whole < 100) return `${number(value, value < 10 ? 1 : 0)} min`;
  return `${Math.floor(whole / 60)} h ${whole % 60} min`;
}

/** The time of day, as the server writes it: local where the roads are. @param {string} text */
export const clock = (text) => text.slice(11, 16);

/** @param {number} share */
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
