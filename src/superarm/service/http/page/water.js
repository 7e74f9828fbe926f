// Which part of the water to ask for. No page in here: everything is tested without a browser.

const PARTS = 4;  // of a box as large as the view, in which it moves

/**
 * A box around a view, on a grid: a map that moves a little has the water it needs.
 * @param {number[]} view west, south, east, north
 * @returns {number[]}
 */
export function waterBox([west, south, east, north]) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(east - west, north - south, 1e-3))) / PARTS;
  const down = (/** @type {number} */ value) => Math.floor(value / step) * step;
  const up = (/** @type {number} */ value) => Math.ceil(value / step) * step;
  return [down(west), down(south), up(east), up(north)];
}

/** The question for the water of a view. @param {number[]} view */
export const waterPath = (view) => `/v1/water?bbox=${waterBox(view).map((value) => value.toFixed(6)).join(",")}`;
