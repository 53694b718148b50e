// Names for what Material (9) and Markdown leave without one, and the keyboard for code that scrolls.
function names() {
  document.querySelectorAll(".md-search[role=dialog]").forEach(function (one) { one.setAttribute("aria-label", "Search"); });
  document.querySelectorAll(".md-code__nav").forEach(function (one) { one.setAttribute("role", "none"); });
  document.querySelectorAll("th:empty").forEach(function (one) { one.replaceWith(document.createElement("td")); });
  document.querySelectorAll("pre > code").forEach(function (one) { one.tabIndex = one.scrollWidth > one.clientWidth ? 0 : -1; });
}
new MutationObserver(names).observe(document.documentElement, { childList: true, subtree: true });
window.addEventListener("resize", names);
