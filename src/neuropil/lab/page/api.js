// Questions to the server: one sentence is thrown where it refuses.

async function answered(response) {
  if (response.ok) return response.json();
  let said = `The lab answered ${response.status}.`;
  try { said = (await response.json()).error ?? said; } catch { said = await response.text().catch(() => said) || said; }
  throw Object.assign(new Error(said), { status: response.status });
}

export const get = async (path, options = {}) => answered(await fetch(path, options));

export const post = async (path, body = {}, options = {}) => answered(await fetch(path, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), ...options,
}));

const known = new Map();
// What does not change while the page is open.
export function once(path) {
  if (!known.has(path)) known.set(path, get(path).catch((error) => { known.delete(path); throw error; }));
  return known.get(path);
}
