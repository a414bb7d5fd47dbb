// What makes the console more comfortable where scripts run. Every page works without.
"use strict";

(() => {
  const enliven = (root) => {
    for (const button of root.querySelectorAll("button[data-copy]")) {
      button.hidden = false;
      if (!button.hasAttribute("aria-label")) button.setAttribute("aria-label", `Copy ${button.dataset.copy}`);
    }
    for (const shown of root.querySelectorAll("[data-with-script]")) shown.hidden = false;
    for (const plot of root.querySelectorAll("[data-days]")) plot.setAttribute("tabindex", "0");
    tell(root);
  };

  // Moments go on while a page is open, and the exact ones are in the zone of the browser unless one was chosen.
  const clock = { now: 0, at: 0 };
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const ago = (seconds) => {
    const away = Math.floor(Math.abs(seconds));
    const [size, unit] = UNITS.find(([each]) => away >= each) ?? [1, "s"];
    const words = `${Math.floor(away / size)} ${unit}`;
    return seconds >= 0 ? `${words} ago` : `in ${words}`;
  };
  const zoned = (time) => new Date(time.dateTime).toLocaleString("sv-SE", { timeZoneName: "short" });
  const tell = (root) => {
    const main = content();
    if (!main) return;
    if (clock.now !== Number(main.dataset.now)) {
      clock.now = Number(main.dataset.now);
      clock.at = performance.now();
    }
    const now = clock.now + (performance.now() - clock.at) / 1000;
    for (const time of root.querySelectorAll("time[datetime]")) {
      const relative = "ago" in time.dataset;
      const seconds = now - Date.parse(time.dateTime) / 1000;
      if (!("zoned" in main.dataset)) {
        if (relative) time.title = zoned(time);
        else time.textContent = zoned(time);
      }
      if (relative && Math.abs(seconds) < 30 * 86400) time.textContent = ago(seconds);
    }
  };
  window.setInterval(() => { if (!document.hidden) tell(document); }, 20000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      button.dataset.said = "";
    } catch {
      button.textContent = "Press Ctrl+C";
      button.dataset.said = "";
      window.getSelection().selectAllChildren(button.previousElementSibling);
    }
    window.setTimeout(() => { button.textContent = "Copy"; delete button.dataset.said; }, 2000);
  });

  // A chart tells the day under the pointer, or the one that the arrow keys lead to.
  const point = (day) => {
    for (const one of day.parentElement.querySelectorAll("[data-at]")) delete one.dataset.at;
    day.dataset.at = "";
    day.closest("figure").querySelector("[data-told]").textContent = day.querySelector("title").textContent;
  };
  document.addEventListener("pointerover", (event) => {
    const day = event.target.closest?.("[data-days] [data-day]");
    if (day) point(day);
  });
  document.addEventListener("keydown", (event) => {
    const plot = event.target.closest?.("[data-days]");
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!plot || !step) return;
    event.preventDefault();
    const days = [...plot.querySelectorAll("[data-day]")];
    const at = days.findIndex((day) => "at" in day.dataset);
    point(days[Math.max(0, Math.min(days.length - 1, (at < 0 ? days.length - (step < 0 ? 0 : 1) : at) + step))]);
  });

  document.addEventListener("change", (event) => {
    if (event.target.dataset.checks) {
      for (const box of event.target.form.elements) {
        if (box.name === event.target.dataset.checks) box.checked = event.target.checked;
      }
    }
    const form = event.target.closest("form[data-sends-itself]");
    if (form && event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
  });

  // What takes long says so until its answer is there.
  document.addEventListener("submit", (event) => {
    if (!event.submitter?.matches("[data-slow]")) return;
    for (const said of event.target.querySelectorAll("[data-slow-said]")) said.classList.add("htmx-request");
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.stop[open], details.sheet-holder[open]")) open.open = false;
  });

  // A page that follows changes hears of them, and reads itself anew. What is being typed or was refused stays.
  const live = { source: null, timer: 0, text: "", reading: false, again: false };
  const content = () => document.getElementById("content");
  const told = (main) => main.innerHTML.replace(/name="_key" value="[^"]*"/g, "").replace(/(<time )[^>]*>[^<]*/g, "$1");
  const typed = "input:not([type=hidden]), select, textarea";

  const isEdited = (main) => "keeps" in main.dataset || [...main.querySelectorAll(typed)].some((field) =>
    (field === document.activeElement && !field.matches("[type=checkbox], [type=radio]"))
    || (field.matches("select")
      ? [...field.options].some((option) => option.selected !== option.defaultSelected
        && (option.defaultSelected || field.querySelector("option[selected]") || option.index > 0))
      : field.matches("[type=checkbox], [type=radio]") ? field.checked !== field.defaultChecked
        : field.value !== field.defaultValue));

  const pathOf = (root, element) => {
    const path = [];
    for (let at = element; at && at !== root; at = at.parentElement) {
      if (at.id) return [`#${CSS.escape(at.id)}`, ...path].join(" > ");
      path.unshift(`${at.tagName}:nth-child(${[...at.parentElement.children].indexOf(at) + 1})`);
    }
    return [":scope", ...path].join(" > ");
  };

  const say = (text) => {
    const place = document.querySelector("[data-live]");
    if (!place) return;
    place.hidden = false;
    if (place.textContent !== text) place.textContent = text;
  };

  const replace = (old, fresh) => {
    const within = old.contains(document.activeElement) && old !== document.activeElement;
    const focused = within ? pathOf(old, document.activeElement) : null;
    const details = [...old.querySelectorAll("details")].map((one) => [pathOf(old, one), one.open]);
    const [left, top] = [window.scrollX, window.scrollY];
    old.replaceChildren(...fresh.childNodes);
    for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const name of fresh.getAttributeNames()) old.setAttribute(name, fresh.getAttribute(name));
    for (const [path, open] of details) {
      const one = old.querySelector(path);
      if (one && one.tagName === "DETAILS") one.open = open;
    }
    window.htmx?.process(old);
    enliven(old);
    if (focused) old.querySelector(focused)?.focus({ preventScroll: true });
    window.scrollTo(left, top);
  };

  const readAnew = async () => {
    if (live.reading) { live.again = true; return; }
    live.reading = true;
    try {
      const main = content();
      const here = "keeps" in main.dataset ? main.dataset.here : window.location.href;
      const answer = await fetch(here, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.redirected && !answer.url.startsWith(new URL(main.dataset.here, here).href.split("?")[0])) {
        window.location.assign(answer.url);
        return;
      }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
      if (answer.ok && fresh && told(fresh) === live.text) { say("Live"); return; }
      if (!answer.ok || !fresh || isEdited(main)) { say("This page has changed."); return; }
      live.text = told(fresh);
      replace(main, fresh);
      say("Live");
    } catch {
      say("Not connected");
    } finally {
      live.reading = false;
      if (live.again) { live.again = false; readAnew(); }
    }
  };

  const follow = () => {
    const main = content();
    if (!main || document.hidden) return;
    if (main.dataset.every && !live.timer) {
      live.timer = window.setInterval(readAnew, 1000 * Number(main.dataset.every));
      say("Live");
    }
    if (!main.dataset.follows || live.source) return;
    const source = live.source = new EventSource(main.dataset.follows);
    source.addEventListener("begun", () => { say("Live"); readAnew(); });
    source.addEventListener("changed", readAnew);
    source.addEventListener("error", () => {
      say("Not connected");
      if (source.readyState !== EventSource.CLOSED) return;
      leave();
      readAnew();
    });
  };

  // A hidden page listens to nothing: browsers have few connections to one place.
  const leave = () => {
    live.source?.close();
    window.clearInterval(live.timer);
    live.source = null;
    live.timer = 0;
  };

  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else follow(); });
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", (event) => { if (event.persisted) follow(); });

  document.addEventListener("DOMContentLoaded", () => {
    if (content()) live.text = told(content());
    enliven(document);
    follow();
  });
  document.addEventListener("htmx:responseError", () => { if (live.source) readAnew(); });
  document.addEventListener("htmx:afterSwap", (event) => enliven(event.target));
})();
