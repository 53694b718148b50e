// Each tab sends one request at a time; changes in the meantime are sent once the answer has arrived.
(function () {
  "use strict";
  const BREAK = 3; // standard deviation of the noise of a broken sensor
  const held = {}; // the file that waits for a second one
  const PATIENCE = 60000; // milliseconds after which an answer counts as lost
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

  // Dash 4.4 marks radio buttons as options of a list box, and names neither them nor sliders, files and dropdowns.
  function put(one, name, value) {
    if (one.getAttribute(name) !== value) { one.setAttribute(name, value); }
  }

  function mend() {
    document.querySelectorAll(".dash-options-list").forEach(function (list) {
      const group = list.closest("[role=group][aria-labelledby]"), nav = list.closest("nav[aria-label]");
      put(list, "role", list.classList.contains("dash-radioitems") ? "radiogroup" : "group");
      if (group) { put(list, "aria-labelledby", group.getAttribute("aria-labelledby")); }
      else { put(list, "aria-label", nav ? nav.getAttribute("aria-label") : list.textContent); }
      list.querySelectorAll("label[role], label[aria-selected]").forEach(function (one) {
        one.removeAttribute("role");
        one.removeAttribute("aria-selected");
      });
    });
    document.querySelectorAll(".control[aria-labelledby] [role=slider]").forEach(function (one) {
      const control = one.closest(".control"), shown = control.querySelector("output");
      put(one, "aria-labelledby", control.getAttribute("aria-labelledby"));
      if (shown && shown.textContent) { put(one, "aria-valuetext", shown.textContent); }
    });
    document.querySelectorAll(".dash-dropdown-focus-target").forEach(function (one) {
      const label = one.closest(".control") && one.closest(".control").querySelector("label");
      one.removeAttribute("aria-hidden");
      if (label) { put(one, "aria-label", label.textContent); }
    });
    document.querySelectorAll(".upload-row input[type=file]").forEach(function (one) {
      put(one, "aria-label", one.closest(".upload-row").querySelector("button").textContent);
    });
  }
  new MutationObserver(mend).observe(document.documentElement, {
    childList: true, subtree: true, characterData: true, attributes: true,
    attributeFilter: ["role", "aria-selected", "aria-hidden"],
  });

  // Files that cannot be taken are answered here, before the page reads them.
  function refusal(files, limit, most, folder) {
    const wanted = most > 1 ? "Choose one or two files" : "Choose one file";
    if (folder) { return "That is a folder. " + wanted + "."; }
    if (files.length < 1 || files.length > most) { return wanted + "; got " + files.length + "."; }
    for (const file of files) {
      if (file.size === 0) { return file.name + " is empty."; }
      if (file.size > limit) {
        return file.name + " has " + file.size.toLocaleString("en") + " bytes; at most "
          + limit.toLocaleString("en") + " are accepted.";
      }
    }
    return "";
  }

  function guard(event, files, folder) {
    const row = event.target.closest && event.target.closest(".upload-row");
    if (!row || !files || (files.length === 0 && !folder)) { return; }
    const text = refusal(files, Number(row.dataset.limit), Number(row.dataset.most), folder);
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
    const files = event.dataTransfer && event.dataTransfer.files;
    guard(event, files, folder);
    const row = event.target.closest && event.target.closest(".upload-row");
    const input = row && row.querySelector("input[type=file]");
    if (!event.defaultPrevented && input && files && files.length > 1) {
      // Dash reads only the first of several files that are dropped, but all that are chosen.
      event.preventDefault();
      event.stopPropagation();
      input.files = files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
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
    take: function (contents, names, firstKey, secondKey) {
      const upload = clientside.callback_context.outputs_list.id.replace(/-file$/, "");
      if (!contents) { return clientside.no_update; }
      // Otherwise the same file would be no change, and get no answer.
      setTimeout(function () {
        clientside.set_props(upload, { contents: null });
        document.querySelectorAll("#" + upload + " input[type=file]").forEach(function (one) { one.value = ""; });
      }, 0);
      const files = contents.map(function (one, k) { return { contents: one, name: names[k] }; });
      // A single file follows the one that waits for it; otherwise a new pair begins.
      if (files.length === 1 && held[upload] && firstKey && !secondKey) { files.unshift(held[upload]); }
      held[upload] = files[0];
      return { files: files, at: Date.now() };
    },
    theme: function () { return dark.matches ? "dark" : "light"; },
    same: function (value) { return value || clientside.no_update; },
    broken: function (selected, breaks, repairs, stretch, noise, figure) {
      const by = clientside.callback_context.triggered[0].prop_id;
      if (by.includes("-repair.")) { return [stretch, 0]; }
      if (by.includes("-break.")) { return [stretch, noise || BREAK]; }
      const range = selected && selected.range, name = range && Object.keys(range).find(function (one) { return one[0] === "x"; });
      if (!name || !figure) { return [clientside.no_update, clientside.no_update]; }
      const axis = figure.layout["xaxis" + name.slice(1)].range, width = axis[1] - axis[0];
      const ends = range[name].map(function (at) {
        return Math.min(100, Math.max(0, Math.round(100 * (at - axis[0]) / width)));
      }).sort(function (a, b) { return a - b; });
      return [ends, noise || BREAK];
    },
    picture: function (clicks, name) {
      const page = clientside.callback_context.outputs_list.id.replace(/-picture$/, "-page");
      document.querySelectorAll("#" + page + " .js-plotly-plot").forEach(function (figure, k) {
        window.Plotly.downloadImage(figure, {
          format: "png", scale: 2, filename: name + (k ? "-" + (k + 1) : ""),
          width: figure.clientWidth, height: figure.clientHeight,
        });
      });
      return "";
    },
    plain: short,
    power: function (value) { return String(Number(Math.pow(10, value).toPrecision(2))); },
    percent: function (value) { return value >= 100 ? "none" : short(value) + " %"; },
    share: function (value) { return short(value) + " %"; },
    play: function (clicks, stopped) { return [!stopped, stopped ? "Pause" : "Play"]; },
    tick: function (n, value) { return value >= 100 ? 0 : Math.min(value + 2, 100); },
    range: function (value) { return short(value[0]) + " – " + short(value[1]) + " %"; },
    pages: function (value) {
      return [].concat(clientside.callback_context.outputs_list).map(function (output) {
        return output.id === value + "-page" ? {} : { display: "none" };
      });
    },
  };
})();
