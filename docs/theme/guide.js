// Search of the guide, and examples to copy. The index is one file beside the pages; nothing is sent anywhere.
"use strict";
{
  const base = document.currentScript.dataset.base;
  const query = document.getElementById("query");
  const found = document.getElementById("found");
  let loading = null;

  const load = async () => {
    const { docs, config } = await (await fetch(`${base}/search/search_index.json`)).json();
    lunr.tokenizer.separator = new RegExp(config.separator);
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 5 });
      this.field("text");
      docs.forEach((page) => this.add(page));
    });
    return { index, pages: new Map(docs.map((page) => [page.location, page])) };
  };

  const show = async () => {
    const words = query.value.trim();
    found.hidden = words.length < 2;
    if (found.hidden) return;
    loading ??= load();
    const { index, pages } = await loading;
    if (words !== query.value.trim()) return; // a later key was faster
    const hits = index.query((search) => {
      for (const word of lunr.tokenizer(words)) {
        search.term(word, { boost: 10, usePipeline: true });
        search.term(word, { wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false });
      }
    });
    const list = document.createElement("ul");
    for (const hit of hits.slice(0, 12)) {
      const page = pages.get(hit.ref);
      const link = document.createElement("a");
      link.href = `${base}/${page.location}`;
      link.textContent = page.title;
      const text = document.createElement("p");
      text.textContent = page.text.slice(0, 160);
      const item = document.createElement("li");
      item.append(link, text);
      list.append(item);
    }
    found.replaceChildren(hits.length ? list : "Nothing found.");
  };

  // Examples are written for the default address. Served from elsewhere, they name the host of this page.
  const WRITTEN = "http://127.0.0.1:8000";
  const nameOwnHost = (block) => {
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(WRITTEN, location.origin);
  };

  // Without permission to write to the clipboard (a page that is not served by HTTPS), the example is selected instead.
  const addCopyButton = (block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.parentElement.classList.add("copyable");
    block.before(button);
  };

  for (const block of document.querySelectorAll("main .codehilite pre")) {
    if (location.protocol.startsWith("http")) nameOwnHost(block);
    addCopyButton(block);
  }

  query.form.addEventListener("submit", (event) => event.preventDefault());
  query.addEventListener("input", show);
  // What scrolls sideways can be reached with the keyboard.
  for (const each of document.querySelectorAll("main pre, main table")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  }
  // On a narrow screen the list of pages starts closed.
  if (matchMedia("(max-width: 55rem)").matches) document.querySelector("nav details").open = false;
}
