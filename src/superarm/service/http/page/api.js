// Questions to the server. A key is kept until the tab is closed.

const KEY = "superarm-key";

export class Refusal extends Error {
  /** @param {number} status @param {string} detail */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @param {string} key */
export const useKey = (key) => sessionStorage.setItem(KEY, key);

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function ask(method, path, body) {
  /** @type {Record<string, string>} */
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const content = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, content.detail ?? `error ${answer.status}`);
  return content;
}

/** An element that is on the page. @param {string} id @returns {any} */
export const at = (id) => document.getElementById(id);
