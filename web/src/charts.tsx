// Charts: bars, calibration, waterfall, weights with errors as SVG; curves by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { CalibrationBin } from "./contract";
import { theme } from "./theme";

export interface Line {
  label: string;
  values: (number | null)[];
}

// Lines over a common axis; the colours follow the theme.
export function Curve(props: { x: number[]; lines: Line[]; xlabel: string; ylabel: string; range?: [number, number] }) {
  const place = useRef<HTMLDivElement>(null);
  const mode = theme.value;
  useEffect(() => {
    const element = place.current!;
    const colourOf = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
    const palette = ["--accent", "--gold", "--good", "--bad", "--violet", "--teal"].map(colourOf);
    const axis = {
      stroke: colourOf("--muted"), grid: { stroke: colourOf("--line"), width: 1 },
      ticks: { stroke: colourOf("--line"), width: 1 }, font: "12px system-ui",
    };
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth), height: 220,
        legend: { show: props.lines.length > 1 }, cursor: { points: { show: false } },
        scales: { x: { time: false }, ...(props.range ? { y: { range: props.range } } : {}) },
        axes: [
          { ...axis, label: props.xlabel, labelFont: "12px system-ui", labelSize: 22 },
          { ...axis, label: props.ylabel, labelFont: "12px system-ui", labelSize: 22, size: 64 },
        ],
        series: [
          { label: props.xlabel },
          ...props.lines.map((line, n) => ({
            label: line.label, stroke: palette[n % palette.length], width: 2, points: { show: false },
          })),
        ],
      },
      [props.x, ...props.lines.map((line) => line.values)] as uPlot.AlignedData,
      element,
    );
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: Math.max(200, element.clientWidth), height: 220 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [props.x, props.lines, mode]);
  const last = props.lines[0]?.values.at(-1);
  return (
    <div class="curve" ref={place} role="img"
      aria-label={`${props.ylabel} over ${props.xlabel}, last value ${last?.toPrecision(4) ?? "none"}`} />
  );
}

// The distribution of probabilities.
export function Bars({ bins }: { bins: CalibrationBin[] }) {
  const most = Math.max(1, ...bins.map((bin) => bin.count));
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const width = 100 / bins.length;
  return (
    <figure class="figure">
      <svg viewBox="0 0 100 46" preserveAspectRatio="none" role="img"
        aria-label={`Distribution of ${total} probabilities`}>
        {bins.map((bin, n) => (
          <rect key={n} x={n * width + 0.4} width={width - 0.8} y={44 - (42 * bin.count) / most}
            height={Math.max(bin.count ? 0.6 : 0, (42 * bin.count) / most)} rx="0.5" class="bar">
            <title>{`${bin.low.toFixed(2)}–${bin.high.toFixed(2)}: ${bin.count.toLocaleString()} atoms`}</title>
          </rect>
        ))}
        <line x1="0" x2="100" y1="44.4" y2="44.4" class="axis" />
      </svg>
      <figcaption class="ends"><span>0</span><span>probability of {total.toLocaleString()} atoms</span><span>1</span></figcaption>
    </figure>
  );
}

// Predicted against observed: on the diagonal, what is said 70 % is true in 70 %.
export function Calibration({ bins, error }: { bins: CalibrationBin[]; error: number | null }) {
  const most = Math.max(1, ...bins.map((bin) => bin.count));
  const seen = bins.filter((bin) => bin.observed !== null && bin.predicted !== null);
  return (
    <figure class="figure square">
      <svg viewBox="-4 -4 108 108" role="img"
        aria-label={`Calibration, expected error ${error?.toFixed(3) ?? "unknown"}`}>
        <rect x="0" y="0" width="100" height="100" class="plot" />
        <line x1="0" y1="100" x2="100" y2="0" class="diagonal" />
        <polyline class="line" points={seen.map((b) => `${100 * b.predicted!},${100 - 100 * b.observed!}`).join(" ")} />
        {seen.map((bin, n) => (
          <circle key={n} cx={100 * bin.predicted!} cy={100 - 100 * bin.observed!} class="dot"
            r={1.8 + 3.2 * Math.sqrt(bin.count / most)}>
            <title>{`said ${(100 * bin.predicted!).toFixed(1)} %, true ${(100 * bin.observed!).toFixed(1)} % of ${bin.count.toLocaleString()}`}</title>
          </circle>
        ))}
      </svg>
      <figcaption>
        Predicted (across) and observed (up). Expected calibration error{" "}
        <b>{error?.toFixed(3)}</b>.
      </figcaption>
    </figure>
  );
}

export interface WeightRow {
  formula: string;
  weight: number;
  stderr: number | null;
  fixed?: boolean;
  bounded?: boolean;
  warning?: string;
}

// Weights with their standard errors around zero.
export function WeightBars({ rows }: { rows: WeightRow[] }) {
  const reach = Math.max(0.5, ...rows.map((row) => Math.abs(row.weight) + (row.stderr ?? 0)));
  const at = (value: number) => `${(50 + (48 * value) / reach).toFixed(2)}%`;
  return (
    <ul class="weights" aria-label="Weights">
      {rows.map((row, n) => (
        <li key={n}>
          <code title={row.formula}>{row.formula}</code>
          <span class="wnum">
            {row.weight.toFixed(3)}
            <small>{row.fixed ? " fixed" : row.bounded === false ? " no bound" : row.stderr ? ` ± ${row.stderr.toFixed(3)}` : ""}</small>
          </span>
          <span class="wtrack" aria-hidden="true">
            <i class="zero" />
            <i class={row.weight < 0 ? "neg" : "pos"} style={{
              left: row.weight < 0 ? at(row.weight) : "50%",
              width: `${((48 * Math.abs(row.weight)) / reach).toFixed(2)}%`,
            }} />
            {row.stderr ? <i class="err" style={{ left: at(row.weight - row.stderr), width: `${((96 * row.stderr) / reach).toFixed(2)}%` }} /> : null}
          </span>
          {row.warning && <span class="warn-text">⚠ {row.warning}</span>}
        </li>
      ))}
    </ul>
  );
}
