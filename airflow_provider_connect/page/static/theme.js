// Light or dark like Airflow: by the mark on its page, the stored choice, or the system.

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

// Airflow's page around this one, if any.
function airflowPage() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null; // a page of another origin, which may not be read
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
