// What makes the console more comfortable where scripts run. Every page works without.
"use strict";

(() => {
  const enliven = (root) => {
    for (const button of root.querySelectorAll("button[data-copy]")) {
      button.hidden = false;
      button.setAttribute("aria-label", `Copy ${button.dataset.copy}`);
    }
    for (const shown of root.querySelectorAll("[data-with-script]")) shown.hidden = false;
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
      window.getSelection().selectAllChildren(button.previousElementSibling);
    }
    window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-sends-itself]");
    if (form && event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.stop[open], details.sheet-holder[open]")) open.open = false;
  });

  document.addEventListener("DOMContentLoaded", () => enliven(document));
  document.addEventListener("htmx:afterSwap", (event) => enliven(event.target));
})();
