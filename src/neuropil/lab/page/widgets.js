// Everything that a view is made of.
export * from "./charts.js";
export * from "./controls.js";
export * from "./dom.js";
