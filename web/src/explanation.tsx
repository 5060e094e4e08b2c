// The views of an explanation; notebooks show the same.
import type { LayoutOptions } from "cytoscape";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { theme } from "./theme";

export interface Contribution {
  formula: string; rule: string; weight: number | null; log_odds: number | null; count: number;
  because: string[]; examples?: string[]; hard?: string | null;
}
export interface Absence {
  kind: string; text: string; becomes?: string; probability: number | null; change: number | null;
  stderr: number | null; exact: boolean; distance: number; note?: string;
}
export interface Explained {
  atom: string; probability: number; stderr: number | null; exact: boolean; method: string; known?: string;
  world?: { name: string; value: boolean; log_odds: number | null; probability: number } | null;
  contributions: Contribution[]; neutral?: number; without: Absence[];
  sensitivity: { rule: string; weight: number; derivative: number; weight_stderr: number | null; contribution: number | null }[];
  weights_stderr: number | null; changes: { reached: boolean; facts: string[]; probability: number | null; threshold: number } | null;
  words: string[];
  graph: {
    nodes: { kind: string; label: string; distance: number; value?: boolean | null; probability?: number | null; weight?: number | null }[];
    edges: { source: number; target: number }[];
  };
  notes?: string[];
}

const signed = (x: number) => `${x >= 0 ? "+" : "−"}${Math.abs(x).toFixed(2)}`;

// What each ground formula adds to the log-odds, from even odds to the odds of the atom.
export function Waterfall({ found }: { found: Explained }) {
  const rows = found.contributions.slice(0, 14);
  const rest = found.contributions.slice(14).reduce((sum, row) => sum + (row.log_odds ?? 0), 0);
  let at = 0;
  const steps = rows.map((row) => {
    const from = at;
    at += row.log_odds ?? 0;
    return { row, from, to: at };
  });
  const end = at + rest;
  const ends = [0, end, ...steps.flatMap((step) => [step.from, step.to])];
  const low = Math.min(...ends) - 0.3;
  const high = Math.max(...ends) + 0.3;
  const x = (value: number) => (100 * (value - low)) / (high - low);
  if (!rows.length) return <p class="empty">No ground formula changes the odds of this atom.</p>;
  return (
    <ol class="waterfall" aria-label="What adds to the log-odds">
      {steps.map(({ row, from, to }, n) => (
        <li key={n}>
          <div class="reason">
            <span>{row.because.length ? row.because.join(" and ") : row.formula}</span>
            <small title={row.rule}>
              {row.count > 1 ? `${row.count.toLocaleString()} × ` : ""}{row.weight === null ? "hard" : row.weight.toPrecision(3)} · {row.rule}
            </small>
          </div>
          <div class="steps" aria-hidden="true">
            <i class="zero" style={{ left: `${x(0)}%` }} />
            <i class={`step ${to >= from ? "pos" : "neg"}`} style={{
              left: `${x(Math.min(from, to))}%`, width: `${Math.max(0.6, x(Math.max(from, to)) - x(Math.min(from, to)))}%`,
            }} />
          </div>
          <b class={(row.log_odds ?? 0) >= 0 ? "up" : "down"}>
            {row.log_odds === null ? (row.hard === "against" ? "cannot" : "must") : signed(row.log_odds)}
          </b>
        </li>
      ))}
      <li class="sum">
        <div class="reason"><span>together</span>{rest !== 0 && <small>with {found.contributions.length - 14} smaller ones</small>}</div>
        <div class="steps" aria-hidden="true">
          <i class="zero" style={{ left: `${x(0)}%` }} />
          <i class="step total" style={{ left: `${x(Math.min(0, end))}%`, width: `${Math.max(0.6, x(Math.max(0, end)) - x(Math.min(0, end)))}%` }} />
        </div>
        <b>{signed(end)}</b>
      </li>
    </ol>
  );
}

export function Words({ found }: { found: Explained }) {
  return <div class="told">{found.words.map((line, n) => <p key={n} class={line.startsWith("  ") ? "inner" : ""}>{line.trim()}</p>)}</div>;
}

// What would change the probability, the largest change first.
export function Absences({ found, tryFact }: { found: Explained; tryFact?: (row: Absence) => void }) {
  const rows = found.without.filter((row) => row.probability !== null).slice(0, 12);
  return (
    <div class="scroll-x">
      {found.changes && (
        <p class="note">
          {found.changes.reached ? <>The answer crosses {found.changes.threshold} if: <b>{found.changes.facts.join(", ")}</b>{found.changes.probability !== null ? ` (then ${found.changes.probability.toFixed(3)})` : ""}.</>
            : <>No set of these facts moves it across {found.changes.threshold}.</>}
        </p>
      )}
      {rows.length === 0 ? <p class="empty">Nothing nearby changes it.</p> : (
        <table class="plain changes">
          <thead><tr><th>Without</th><th class="num">Then</th><th class="num">Change</th><th /></tr></thead>
          <tbody>
            {rows.map((row, n) => (
              <tr key={n}>
                <td><small class="tag">{row.kind}</small> <span class="mono">{row.text}</span>{row.becomes ? <small class="faint"> {row.becomes}</small> : null}</td>
                <td class="num">{row.probability!.toFixed(4)}{row.stderr ? <small> ± {row.stderr.toFixed(3)}</small> : null}</td>
                <td class={`num ${(row.change ?? 0) >= 0 ? "up" : "down"}`}>{row.change === null ? "" : signed4(row.change)}</td>
                <td>{row.kind === "fact" && tryFact && <button class="small quiet" onClick={() => tryFact(row)}>Try</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
const signed4 = (x: number) => `${x >= 0 ? "+" : "−"}${Math.abs(x).toFixed(4)}`;

export function Sensitivities({ found }: { found: Explained }) {
  const rows = found.sensitivity.filter((row) => row.derivative).slice(0, 10);
  if (!rows.length) return null;
  return (
    <table class="plain">
      <thead><tr><th>Rule</th><th class="num">Weight</th><th class="num">dP/dw</th></tr></thead>
      <tbody>
        {rows.map((row, n) => (
          <tr key={n}><td class="mono">{row.rule}</td><td class="num">{row.weight.toPrecision(3)}{row.weight_stderr ? <small> ± {row.weight_stderr.toPrecision(2)}</small> : null}</td><td class="num">{signed4(row.derivative)}</td></tr>
        ))}
      </tbody>
    </table>
  );
}

// The neighbourhood: atoms and ground formulas; a click on an atom walks there.
export function Neighbourhood({ found, walk }: { found: Explained; walk: (atom: string) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const mode = theme.value;
  const { nodes, edges } = found.graph;
  const [reach, setReach] = useState(1);
  const kept = useMemo(() => nodes.map((node, n) => ({ node, n })).filter(({ node }) => node.distance <= 2 * reach).slice(0, 120), [nodes, reach]);
  useEffect(() => {
    if (!place.current) return;
    const element = place.current;
    const css = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
    let ended = false;
    let end = () => { ended = true; };
    const inside = new Set(kept.map(({ n }) => n));
    const draw = (cytoscape: typeof import("cytoscape")) => {
    if (ended) return;
    const graph = cytoscape({
      container: element,
      elements: [
        ...kept.map(({ node, n }) => ({ data: { id: `n${n}`, label: short(node), kind: node.kind, state: stateOf(node, found.atom), atom: node.label, distance: node.kind === "atom" && node.label === found.atom ? 0 : node.distance + 1 } })),
        ...edges.filter((e) => inside.has(e.source) && inside.has(e.target)).map((e) => ({ data: { source: `n${e.source}`, target: `n${e.target}` } })),
      ],
      style: [
        { selector: "node", style: { label: "data(label)", "font-size": 13, "text-wrap": "wrap", "text-max-width": "165px", "text-valign": "center", color: css("--ink"), "background-color": css("--surface-2"), "border-width": 1, "border-color": css("--line-strong"), shape: "round-rectangle", width: boxWidth, height: boxHeight, padding: "6px" } },
        { selector: "node[kind != 'atom']", style: { "background-color": css("--gold-soft"), "border-color": css("--gold"), "font-size": 12, shape: "rectangle" } },
        { selector: "node[state = 'true']", style: { "background-color": css("--good-soft"), "border-color": css("--good") } },
        { selector: "node[state = 'false']", style: { "background-color": css("--bad-soft"), "border-color": css("--bad") } },
        { selector: "node[state = 'asked']", style: { "background-color": css("--accent"), color: css("--on-accent"), "border-color": css("--accent"), "font-weight": "bold" } },
        { selector: "edge", style: { width: 1.2, "line-color": css("--line-strong"), "curve-style": "straight" } },
      ],
      // Rings: the asked atom in the middle, its formulas around it, their atoms around these.
      layout: {
        name: "concentric", concentric: (node: { data: (name: string) => number }) => 100 - node.data("distance"),
        levelWidth: () => 1, minNodeSpacing: 12, padding: 12, equidistant: false, animate: false,
        startAngle: Math.PI, nodeDimensionsIncludeLabels: true,
      } as LayoutOptions,
      minZoom: 0.2, maxZoom: 2.5,
    });
    graph.on("tap", "node[kind = 'atom']", (event) => walk(event.target.data("atom")));
    end = () => graph.destroy();
    };
    void import("cytoscape").then((loaded) => draw(loaded.default));
    return () => end();
  }, [kept, edges, mode]);
  if (!nodes.length) return <p class="empty">Nothing is connected to this atom.</p>;
  const atoms = kept.filter(({ node }) => node.kind === "atom" && node.label !== found.atom && node.probability !== null && node.value === null);
  return (
    <>
      <div class="row pad">
        <label class="field inline"><span class="label">Steps</span>
          <input type="range" min="1" max="4" value={reach} onInput={(e) => setReach(Number(e.currentTarget.value))} />
        </label>
        <span class="hint">Click an atom to walk there. Green: true in the data, red: false.</span>
      </div>
      <div class="graph" ref={place} role="img" aria-label={`Neighbourhood of ${found.atom}: ${kept.length} nodes`} />
      <ul class="chips pad" aria-label="Neighbours">
        {atoms.slice(0, 16).map(({ node, n }) => (
          <li key={n}><button class="chip" onClick={() => walk(node.label)}>{node.label} {node.probability!.toFixed(2)}</button></li>
        ))}
      </ul>
    </>
  );
}
const lines = (label: string) => label.split("\n").flatMap((line) => line.match(/.{1,22}/g) ?? [""]);
const boxWidth = (node: { data: (name: string) => string }) =>
  Math.max(34, 7.4 * Math.min(22, Math.max(...lines(node.data("label")).map((line) => line.length))));
const boxHeight = (node: { data: (name: string) => string }) => 16 * lines(node.data("label")).length;
type Nearby = Explained["graph"]["nodes"][number];
const stateOf = (node: Nearby, atom: string) =>
  node.kind === "atom" && node.label === atom ? "asked" : node.value === true ? "true" : node.value === false ? "false" : "open";
function short(node: Nearby): string {
  const extra = node.probability != null && node.value == null ? `\n${node.probability.toFixed(2)}` : node.weight != null ? `\n${node.weight.toPrecision(2)}` : "";
  return (node.label.length > 60 ? `${node.label.slice(0, 58)}…` : node.label) + extra;
}
