// Each tab sends one request at a time; changes in the meantime are sent once the answer has arrived.
(function () {
  "use strict";
  const PATIENCE = 15000; // milliseconds after which an answer counts as lost
  const tabs = {};
  const times = (window.udtwTimes = []); // milliseconds from a request to its drawn answer, for the benchmark
  const clientside = (window.dash_clientside = window.dash_clientside || {});

  function state(tab) {
    tabs[tab] = tabs[tab] || { number: 0, since: null, pending: null };
    return tabs[tab];
  }

  window.udtwBusy = function () { // for the tests
    return Object.values(tabs).some(function (one) { return one.since !== null || one.pending !== null; });
  };

  function begin(one, values) {
    one.since = performance.now();
    one.pending = null;
    one.number += 1;
    return { number: one.number, values: values };
  }

  function flush(tab) {
    const one = state(tab);
    if (one.pending !== null) {
      clientside.set_props(tab + "-request", { data: begin(one, one.pending) });
    }
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", function () {
    clientside.set_props("theme", { data: dark.matches ? "dark" : "light" });
  });

  // Dash gives the thumbs of sliders no name; that of their group is taken.
  function nameSliders() {
    document.querySelectorAll(".control[aria-labelledby] [role=slider]:not([aria-labelledby])").forEach(function (one) {
      one.setAttribute("aria-labelledby", one.closest(".control").getAttribute("aria-labelledby"));
    });
  }
  new MutationObserver(nameSliders).observe(document.documentElement, { childList: true, subtree: true });

  // Files that cannot be taken are answered here, before the page reads them.
  function refusal(files, limit, folder) {
    if (folder) { return "That is a folder. Choose one file."; }
    if (files.length !== 1) { return "Choose one file; got " + files.length + "."; }
    if (files[0].size === 0) { return files[0].name + " is empty."; }
    if (files[0].size <= limit) { return ""; }
    return files[0].name + " has " + files[0].size.toLocaleString("en") + " bytes; at most "
      + limit.toLocaleString("en") + " are accepted.";
  }

  function guard(event, files, folder) {
    const row = event.target.closest && event.target.closest(".upload-row");
    if (!row || !files || (files.length === 0 && !folder)) { return; }
    const text = refusal(files, Number(row.dataset.limit), folder);
    if (text) {
      event.preventDefault();
      event.stopPropagation();
      if (event.type === "change") { event.target.value = ""; }
      clientside.set_props(row.closest(".page").id.replace(/-page$/, "-message"), { children: text });
    }
  }

  // A file that is dropped elsewhere would be opened by the browser, instead of this page.
  ["dragover", "drop"].forEach(function (kind) {
    document.addEventListener(kind, function (event) {
      const types = Array.from((event.dataTransfer || {}).types || []);
      if (!types.includes("Files") || (event.target.closest && event.target.closest(".upload-row"))) { return; }
      event.preventDefault();
      const open = Array.from(document.querySelectorAll(".page")).find(function (one) { return one.offsetParent; });
      if (kind === "drop" && open) {
        const text = "Drop a file on one of the buttons that choose it.";
        clientside.set_props(open.id.replace(/-page$/, "-message"), { children: text });
      }
    });
  });

  document.addEventListener("change", function (event) { guard(event, event.target.files, false); }, true);
  document.addEventListener("drop", function (event) {
    const items = Array.from((event.dataTransfer || {}).items || []);
    const folder = items.some(function (one) {
      const entry = one.webkitGetAsEntry && one.webkitGetAsEntry();
      return Boolean(entry && entry.isDirectory);
    });
    guard(event, event.dataTransfer && event.dataTransfer.files, folder);
  }, true);

  function short(value) {
    return String(Number(value.toPrecision(3)));
  }

  clientside.explorer = {
    request: function () {
      const context = clientside.callback_context;
      const tab = context.outputs_list.id.replace(/-request$/, "");
      const values = Object.assign({}, context.inputs);
      if (values["tabs.value"] !== tab) {
        return clientside.no_update;
      }
      const one = state(tab);
      if (one.since !== null && performance.now() - one.since < PATIENCE) {
        if (one.pending === null) {
          setTimeout(function () {
            if (one.since !== null && performance.now() - one.since >= PATIENCE) { flush(tab); }
          }, PATIENCE + 50);
        }
        one.pending = values;
        return clientside.no_update;
      }
      return begin(one, values);
    },
    done: function (answer) {
      const tab = clientside.callback_context.outputs_list.id.replace(/-idle$/, "");
      const one = state(tab);
      if (answer && answer.number === one.number && one.since !== null) {
        // After the next frame the figures are drawn, so that requests do not pile up in the browser while dragging.
        requestAnimationFrame(function () {
          setTimeout(function () {
            if (answer.number !== one.number || one.since === null) { return; }
            times.push({ tab: tab, ms: performance.now() - one.since });
            one.since = null;
            flush(tab);
          }, 0);
        });
      }
      return clientside.no_update;
    },
    take: function (contents, names) {
      const upload = clientside.callback_context.outputs_list.id.replace(/-file$/, "");
      if (!contents) { return clientside.no_update; }
      // Otherwise the same file would be no change, and get no answer.
      setTimeout(function () {
        clientside.set_props(upload, { contents: null });
        document.querySelectorAll("#" + upload + " input[type=file]").forEach(function (one) { one.value = ""; });
      }, 0);
      return { contents: contents[0], name: names[0], at: Date.now() };
    },
    theme: function () { return dark.matches ? "dark" : "light"; },
    plain: short,
    power: function (value) { return String(Number(Math.pow(10, value).toPrecision(2))); },
    percent: function (value) { return value >= 100 ? "none" : short(value) + " %"; },
    share: function (value) { return short(value) + " %"; },
    play: function (clicks, stopped) { return [!stopped, stopped ? "Pause" : "Play"]; },
    tick: function (n, value) { return value >= 100 ? 0 : Math.min(value + 2, 100); },
    range: function (value) { return short(value[0]) + " – " + short(value[1]) + " %"; },
    pages: function (value) {
      return ["series", "images", "skeletons"].map(function (tab) {
        return tab === value ? {} : { display: "none" };
      });
    },
  };
})();
