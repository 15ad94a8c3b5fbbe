// The geometry of links on the map: two lanes side by side, on an arc, so that no link hides behind a site. Pure.

// Longer links rise more, in proportion: those that leave a site in one direction come apart.
const BULGE = { least: 0.05, each: 0.00015 };
const STEPS = 24;

// The arc of a link as points; `shift` moves it to the right of its direction from a to b.
export function arc(a, b, shift, centre) {
  const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1;
  let nx = dy / length, ny = -dx / length;
  const upright = Math.abs(dx) < 0.35 * length;
  const outwards = upright ? nx * ((a.x + b.x) / 2 >= centre.x ? 1 : -1) : -ny;
  if (outwards < 0) [nx, ny] = [-nx, -ny];
  const height = 2 * length * (BULGE.least + BULGE.each * length) * Math.min(1, length / 120);
  const middle = { x: (a.x + b.x) / 2 + nx * height, y: (a.y + b.y) / 2 + ny * height };
  const points = [];
  for (let step = 0; step <= STEPS; step += 1) points.push(onCurve(a, middle, b, step / STEPS, shift));
  return points;
}

// A point of the quadratic curve, moved to the right as seen when going from a to b.
function onCurve(a, middle, b, t, shift) {
  const u = 1 - t;
  const x = u * u * a.x + 2 * u * t * middle.x + t * t * b.x, y = u * u * a.y + 2 * u * t * middle.y + t * t * b.y;
  const tx = u * (middle.x - a.x) + t * (b.x - middle.x), ty = u * (middle.y - a.y) + t * (b.y - middle.y);
  const length = Math.hypot(tx, ty) || 1;
  return { x: x - (ty / length) * shift, y: y + (tx / length) * shift };
}

export function pathOf(points) { return `M${points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join("L")}`; }

// An arrow head at a share of the way, as an SVG path.
export function arrow(points, at, size) {
  const index = Math.max(1, Math.round(at * (points.length - 1)));
  const from = points[index - 1], to = points[index];
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const ux = (to.x - from.x) / length, uy = (to.y - from.y) / length;
  const corner = (along, across) => `${(to.x + ux * along - uy * across).toFixed(1)},${(to.y + uy * along + ux * across).toFixed(1)}`;
  return `M${corner(size, 0)}L${corner(-size * 0.7, size * 0.8)}L${corner(-size * 0.7, -size * 0.8)}Z`;
}

// Without the parts under the sites at both ends.
export function trimmed(points, a, b, radius) {
  const kept = points.filter((p) => Math.hypot(p.x - a.x, p.y - a.y) > radius && Math.hypot(p.x - b.x, p.y - b.y) > radius);
  return kept.length > 1 ? kept : points;
}

// Where each site's name goes: the first free of eight places around it. Boxes are in map units, the last argument is the view box.
export function placeNames(sites, taken, [left, top, width, height]) {
  const boxes = [];
  const overlap = (p, q) => Math.max(0, Math.min(p.x2, q.x2) - Math.max(p.x1, q.x1)) * Math.max(0, Math.min(p.y2, q.y2) - Math.max(p.y1, q.y1));
  const dots = sites.map((s) => ({ x1: s.x - 14, x2: s.x + 14, y1: s.y - 14, y2: s.y + 14 }));
  return sites.map((site) => {
    const w = site.name.length * 8 + 4, h = 17;
    const places = [[0, 25, "middle"], [0, -22, "middle"], [18, 5, "start"], [-18, 5, "end"], [14, 22, "start"], [-14, 22, "end"], [14, -18, "start"], [-14, -18, "end"]];
    const scored = places.map(([dx, dy, anchor], rank) => {
      const x1 = site.x + dx - (anchor === "middle" ? w / 2 : anchor === "end" ? w : 0);
      const box = { x1, x2: x1 + w, y1: site.y + dy - h * 0.8, y2: site.y + dy + h * 0.2 };
      const outside = Math.max(0, left - box.x1) + Math.max(0, box.x2 - left - width) + Math.max(0, top - box.y1) + Math.max(0, box.y2 - top - height);
      const covered = [...boxes, ...dots].reduce((sum, other) => sum + overlap(box, other), 0);
      const crossed = taken.filter((p) => p.x > box.x1 && p.x < box.x2 && p.y > box.y1 && p.y < box.y2).length;
      return { score: covered * 4 + outside * 60 + crossed * 22 + rank * 3, box, x: site.x + dx, y: site.y + dy, anchor };
    });
    const best = scored.reduce((a, b) => (b.score < a.score ? b : a));
    boxes.push(best.box);
    return best;
  });
}
