// News of the queue, by one stream for the whole page: how each job stands, and what it measures.

import { get } from "./api.js";

const listeners = new Set(), jobs = new Map();
let stream = null, known;
const first = new Promise((done) => { known = done; });

function receive(news) {
  if (news.event === "jobs") { jobs.clear(); for (const job of news.jobs) jobs.set(job.id, job); known(); }
  else if (news.event === "job") jobs.set(news.job.id, news.job);
  else if (news.event === "removed") jobs.delete(news.id);
  else if (news.event === "progress" && jobs.has(news.id)) jobs.get(news.id).progress = news.progress;
  for (const listener of [...listeners]) listener(news);
}

function open() {
  stream = new EventSource("/api/events");
  stream.onmessage = (message) => receive(JSON.parse(message.data));
  stream.onerror = () => { // the server has gone: the browser asks again by itself, unless it was refused
    for (const listener of [...listeners]) listener({ event: "lost" });
    if (stream.readyState === EventSource.CLOSED) setTimeout(open, 1000);
  };
}

// Calls with each piece of news, the first of which is {event: "jobs"}; returns what ends it.
export function follow(listener) {
  listeners.add(listener);
  if (!stream) open();
  else if (jobs.size) listener({ event: "jobs", jobs: [...jobs.values()] });
  return () => listeners.delete(listener);
}

// The latest job of a run, when the queue is known.
export async function jobOf(run) {
  if (!stream) open();
  await first;
  return [...jobs.values()].findLast((job) => job.run === run);
}
export const curvesOf = (id) => get(`/api/queue/${id}/curves`);
addEventListener("pagehide", () => { stream?.close(); stream = null; });
addEventListener("pageshow", () => { if (!stream && listeners.size) open(); });
