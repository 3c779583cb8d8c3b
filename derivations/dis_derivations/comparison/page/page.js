"use strict";
(() => {
  const begun = performance.now();
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("heat");
  if (!canvas) return;
  const rows = data.rows, width = data.positions, height = rows.length;
  const colours = new Map(Object.entries(data.colours).map(([level, hex]) =>
    [level, [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16))]));
  canvas.width = Math.max(width, 1);
  canvas.height = Math.max(height, 1);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  rows.forEach((row, y) => {
    for (let x = 0; x < row.cells.length; x++) {
      const colour = colours.get(row.cells[x]);
      if (!colour) continue;
      const at = 4 * (y * canvas.width + x);
      image.data[at] = colour[0];
      image.data[at + 1] = colour[1];
      image.data[at + 2] = colour[2];
      image.data[at + 3] = 255;
    }
  });
  context.putImageData(image, 0, 0);
  const across = Math.max(2, Math.min(14, Math.floor(900 / canvas.width)));
  const down = height > 400 ? 4 : height > 60 ? 8 : 14;
  canvas.style.width = `${across * canvas.width}px`;
  canvas.style.height = `${down * canvas.height}px`;
  const cell = document.getElementById("cell");
  const find = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / across);
    const y = Math.floor((event.clientY - box.top) / down);
    return rows[y] && rows[y].cells[x] ? [rows[y], x, y] : null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const found = find(event);
    cell.textContent = found
      ? `${found[0].id}, position ${found[1]}: ${data.meanings[found[0].cells[found[1]]]}` : "";
  });
  canvas.addEventListener("click", (event) => {
    const found = find(event);
    const target = found && document.getElementById(`sequence-${found[0].index}`);
    if (!target) return;
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView({ block: "center" });
  });
  document.documentElement.dataset.drawn = String(height);
  document.documentElement.dataset.milliseconds = String(Math.round(performance.now() - begun));
})();
