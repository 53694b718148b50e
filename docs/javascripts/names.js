// Names for what Material (9) and Markdown leave without one, and the keyboard for what scrolls.
function names() {
  document.querySelectorAll(".md-search[role=dialog]").forEach(function (one) { one.setAttribute("aria-label", "Search"); });
  document.querySelectorAll(".md-code__nav").forEach(function (one) { one.setAttribute("role", "none"); });
  document.querySelectorAll("th:empty").forEach(function (one) { one.replaceWith(document.createElement("td")); });
  const scrolling = "pre > code, .md-typeset__scrollwrap, .formula, .md-typeset :is(p, li):has(> math)";
  document.querySelectorAll(scrolling).forEach(function (one) {
    if (one.scrollWidth > one.clientWidth) { one.tabIndex = 0; } else { one.removeAttribute("tabindex"); }
  });
}
new MutationObserver(names).observe(document.documentElement, { childList: true, subtree: true });
window.addEventListener("resize", names);
