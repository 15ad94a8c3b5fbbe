// Figures as people read them.

export function rate(bps) {
  if (bps === null || bps === undefined) return "–";
  if (bps < 1) return "0";
  const [value, unit] = bps >= 1e9 ? [bps / 1e9, "Gbit/s"] : bps >= 1e6 ? [bps / 1e6, "Mbit/s"] : [bps / 1e3, "kbit/s"];
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

// A part of a rate in the unit of the whole.
export function rateOf(part, whole) {
  const [value, unit] = rate(whole).split(" ");
  return `${((part / whole) * Number(value) || 0).toFixed(1)} of ${value} ${unit}`;
}

export function bytes(count) {
  if (count < 1e3) return `${count} B`;
  return count < 1e6 ? `${(count / 1e3).toFixed(0)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
  return seconds < 1 ? `${(seconds * 1e3).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;
}

export function clock(seconds) {
  const whole = Math.max(0, seconds);
  const minutes = Math.floor(whole / 60);
  return minutes ? `${minutes}:${(whole % 60).toFixed(0).padStart(2, "0")}` : `${whole.toFixed(1)} s`;
}

export function share(part, whole) { return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–"; }
