// A button that copies a text to the clipboard.

import { make } from "./elements.js";

export function copyButton(source, label = "Copy") {
  const node = make("button", { type: "button", class: "copy", onclick: () => copyText(source()).then(say) }, label);
  const say = (text) => (node.textContent = text);
  return { element: node, reset: () => say(label) };
}

async function copyText(element) {
  getSelection().selectAllChildren(element);
  try {
    await navigator.clipboard.writeText(element.textContent);
    return "Copied";
  } catch {
    return document.execCommand("copy") ? "Copied" : "Selected"; // without TLS a browser has no clipboard
  }
}
