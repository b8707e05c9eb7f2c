// Where brokers stand on the map: springs along links, everybody pushes everybody away (Fruchterman and Reingold).
// They begin on a circle in the order of a walk through the network, so that the same network looks the same.

const ROUNDS = 260;
const QUICK_ROUNDS = 120; // with many brokers nobody sees the difference
const MANY = 80;

export function spread(names, links) {
  const number = new Map(names.map((name, at) => [name, at]));
  const ends = links.map(([a, b]) => [number.get(a), number.get(b)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const size = names.length;
  const x = new Float64Array(size);
  const y = new Float64Array(size);
  walk(size, ends).forEach((node, at) => {
    x[node] = Math.cos((2 * Math.PI * at) / size);
    y[node] = Math.sin((2 * Math.PI * at) / size);
  });
  const spacing = 1.6 / Math.sqrt(size || 1);
  const rounds = size <= MANY ? ROUNDS : QUICK_ROUNDS;
  for (let round = 0; round < rounds; round += 1) step(x, y, ends, spacing, 0.25 * (1 - round / rounds));
  const [lowX, highX, lowY, highY] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
  return new Map(names.map((name, at) => [name, {
    x: (x[at] - lowX) / (highX - lowX || 1),
    y: (y[at] - lowY) / (highY - lowY || 1),
  }]));
}

// Moves places that are closer than so many pixels apart, so that each can be seen and hit.
export function separate(places, least, width, height) {
  const all = [...places.values()];
  for (let round = 0; round < 60; round += 1) {
    let moved = false;
    for (let one = 0; one < all.length; one += 1) {
      for (let other = one + 1; other < all.length; other += 1) {
        const [a, b] = [all[one], all[other]];
        if (a === b) continue;
        const [dx, dy] = [a.x - b.x || 0.01 * (one + 1), a.y - b.y || 0.01];
        const apart = Math.hypot(dx, dy);
        if (apart >= least) continue;
        const by = (least - apart) / apart / 2;
        a.x = Math.min(width - 8, Math.max(8, a.x + dx * by));
        a.y = Math.min(height - 8, Math.max(8, a.y + dy * by));
        b.x = Math.min(width - 8, Math.max(8, b.x - dx * by));
        b.y = Math.min(height - 8, Math.max(8, b.y - dy * by));
        moved = true;
      }
    }
    if (!moved) return;
  }
}

function step(x, y, ends, spacing, most) {
  const size = x.length;
  const pushX = new Float64Array(size);
  const pushY = new Float64Array(size);
  for (let one = 0; one < size; one += 1) {
    for (let other = one + 1; other < size; other += 1) {
      const dx = x[one] - x[other] || 1e-6;
      const dy = y[one] - y[other] || 1e-6;
      const force = (spacing * spacing) / (dx * dx + dy * dy);
      pushX[one] += dx * force;
      pushY[one] += dy * force;
      pushX[other] -= dx * force;
      pushY[other] -= dy * force;
    }
  }
  for (const [a, b] of ends) {
    const dx = x[a] - x[b];
    const dy = y[a] - y[b];
    const force = Math.hypot(dx, dy) / spacing;
    pushX[a] -= dx * force;
    pushY[a] -= dy * force;
    pushX[b] += dx * force;
    pushY[b] += dy * force;
  }
  for (let at = 0; at < size; at += 1) {
    const length = Math.hypot(pushX[at], pushY[at]) || 1e-9;
    const scale = Math.min(length, most) / length;
    x[at] += pushX[at] * scale;
    y[at] += pushY[at] * scale;
  }
}

function walk(size, ends) {
  const neighbours = Array.from({ length: size }, () => []);
  for (const [a, b] of ends) {
    neighbours[a].push(b);
    neighbours[b].push(a);
  }
  const found = new Set();
  for (let start = 0; start < size; start += 1) {
    const waiting = [start];
    while (waiting.length) {
      const at = waiting.pop();
      if (found.has(at)) continue;
      found.add(at);
      waiting.push(...neighbours[at].filter((each) => !found.has(each)).reverse());
    }
  }
  return [...found];
}
