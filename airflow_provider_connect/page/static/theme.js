// Light or dark, as Airflow is: it marks its own page, keeps the choice, or leaves it to the system.

export function followTheme() {
  apply();
  addEventListener("storage", apply);
  const page = airflowPage();
  if (page) new MutationObserver(apply).observe(page, { attributes: true, attributeFilter: ["class", "data-theme"] });
}

function apply() {
  const chosen = marked(airflowPage()) ?? kept();
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

// Airflow's own page, where this one is shown within it.
function airflowPage() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null; // another origin's page, which is none of ours to read
  }
}

function marked(page) {
  return ["dark", "light"].find((name) => page?.classList.contains(name) || page?.dataset.theme === name) ?? null;
}

function kept() {
  try {
    const name = localStorage.getItem("theme");
    return ["dark", "light"].includes(name) ? name : null;
  } catch {
    return null;
  }
}
