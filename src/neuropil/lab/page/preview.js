// What was understood of data of one's own.
import { h } from "./dom.js";
export const dataPreview = (found) => h("pre", {}, JSON.stringify(found, null, 1));
