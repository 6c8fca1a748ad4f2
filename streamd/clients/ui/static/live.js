"use strict";
// Keeps a page up to date while its button Live is pressed: a list is fetched anew, a stream gets the entries that came.
(() => {
  const LIST_MS = 5000, TAIL_MS = 1000, ROWS_MAX = 500;
  const button = document.querySelector("button[data-live]");
  if (!button) return;
  button.hidden = false;
  let timer = null, presses = 0;

  const fetched = async (address) => {
    const reply = await fetch(address, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!reply.ok) throw new Error(`${reply.status}`);
    return new DOMParser().parseFromString(await reply.text(), "text/html");
  };

  const refreshList = async () => {
    const old = document.getElementById("live");
    if (old.contains(document.activeElement)) return; // not under the hands of who is in it
    const anew = (await fetched(location.href)).getElementById("live");
    if (anew) old.replaceWith(anew);
  };

  const followTail = async () => {
    const rows = document.getElementById("entries");
    const address = new URL(rows.dataset.tail, location.href);
    address.searchParams.set("after", rows.dataset.newest);
    const reply = await fetched(address), came = reply.querySelector("tbody");
    const number = came.querySelectorAll("tr:not(.gap)").length;
    document.getElementById("facts").replaceWith(reply.getElementById("facts")); // of the same moment as the entries
    if (!number) return;
    rows.dataset.newest = came.dataset.newest;
    document.getElementById("empty")?.remove();
    for (const row of came.children) row.classList.add("new");
    rows.prepend(...came.children);
    while (rows.children.length > ROWS_MAX) rows.lastElementChild.remove();
    document.getElementById("tail-status").textContent = `${number} new entries`;
  };

  const isTail = button.dataset.live === "tail";
  const step = async (press) => {
    try {
      if (!document.hidden) await (isTail ? followTail() : refreshList());
      button.textContent = "Live";
    } catch {
      button.textContent = "Live: waiting for the server";
    }
    if (press === presses) timer = setTimeout(step, isTail ? TAIL_MS : LIST_MS, press);
  };

  const press = (on) => {
    button.setAttribute("aria-pressed", String(on));
    clearTimeout(timer);
    presses += 1; // a step that is under way is one of an earlier press, and ends with itself
    if (on) step(presses);
  };
  button.addEventListener("click", () => press(button.getAttribute("aria-pressed") === "false"));
})();
