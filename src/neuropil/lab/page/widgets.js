// Everything that a view is made of.
export * from "./charts.js";
export * from "./controls.js";
export * from "./dom.js";
export * from "./plane.js";
export * from "./texts.js";
