// A browser does not let a page that was opened as a file read the index of the search: say how to serve the site.
if (location.protocol === "file:") {
  const notice = document.createElement("p");
  notice.className = "opened-as-a-file";
  notice.textContent = "This page was opened as a file, so its search does not work. "
    + "To serve the site: make docs-serve, or python3 -m http.server -d build/site";
  document.body.prepend(notice);
}
