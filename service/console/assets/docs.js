// Copy buttons for the documentation. Without this script its pages have none, and lose nothing else.
"use strict";
(() => {
  if (!navigator.clipboard) return;

  // A block with prompts has answers among its commands: the commands alone are copied, with their continued lines.
  const commands = (text) => {
    const lines = text.replace(/\n$/, "").split("\n");
    if (!lines.some((line) => line.startsWith("$ "))) return lines.join("\n");
    const found = [];
    let goes = false;
    for (const line of lines) {
      if (line.startsWith("$ ")) found.push(line.slice(2));
      else if (goes) found.push(line);
      goes = (line.startsWith("$ ") || goes) && line.endsWith("\\");
    }
    return found.join("\n");
  };

  for (const block of document.querySelectorAll("article pre")) {
    const frame = document.createElement("div");
    frame.className = "copied";
    block.replaceWith(frame);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(commands(block.textContent));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Press Ctrl+C";
        window.getSelection().selectAllChildren(block);
      }
      window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    frame.append(block, button);
  }
})();
