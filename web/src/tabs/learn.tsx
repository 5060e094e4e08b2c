// Learning: weights with their curve and errors; rules, accepted one by one.
import { useMemo, useState } from "preact/hooks";
import { api, isOver } from "../api";
import { Curve, WeightBars, type WeightRow } from "../charts";
import type { JobCommand, JobResult, JobState } from "../contract";
import { appendText, editor } from "../editor";
import {
  about, check, fail, kind, LEARNS, lessons, loadResult, mistakes, openTab, requestOf, results, say,
  startRun, workspace,
} from "../state";
import { emptyView, Table } from "../table";
import { Code, ProgressCard } from "./ask";

const KINDS: [JobCommand, string, string][] = [
  ["learn", "Weights", "model"], ["structure", "Rules", "model"],
  ["field-learn", "Weights of the field", "field"], ["circuit-learn", "A circuit", "table"],
];

export function LearnTab() {
  const allowed = KINDS.filter(([, , of]) => of === kind.value);
  const saved = workspace.value.command;
  const [chosen, setChosen] = useState<JobCommand>(LEARNS.includes(saved) ? saved : "learn");
  const command = allowed.some(([name]) => name === chosen) ? chosen : allowed[0]?.[0] ?? "learn";
  const [id, setId] = useState<string | null>(null);
  const run = lessons.value.find((each) => each.id === id)
    ?? lessons.value.find((each) => each.request.model === workspace.value.model) ?? null;
  const [options, setOptions] = useState<Record<string, any>>(() => (["learn", "structure", "field-learn", "circuit-learn"].includes(saved) ? { ...workspace.value.options } : {}));
  const set = (name: string, value: unknown) => {
    const next = { ...options, [name]: value };
    if (value === "" || value === null || Number.isNaN(value)) delete next[name];
    setOptions(next);
  };
  async function go() {
    try {
      const usable = Object.fromEntries(Object.entries(options).filter(([name]) => KNOWN[command].includes(name)));
      const state = await startRun(requestOf(command, usable));
      setId(state.id);
    } catch (error) {
      fail(error);
    }
  }
  const predicates = check.value.predicates.map((predicate) => predicate.name);
  const targets: string[] = options.query ?? [];
  const toggle = (name: string) =>
    set("query", targets.includes(name) ? targets.filter((each) => each !== name) : [...targets, name]);
  const needsData = command !== "circuit-learn" && workspace.value.data.length === 0;
  return (
    <div class="split ask-tab">
      <section class="card question" aria-label="Learning">
        <header class="card-head"><h2>Learn</h2><span class="grow" /><span class="faint ellipsis">{workspace.value.model ?? "no model"}</span></header>
        <div class="pad stack">
          {!allowed.length && <p class="empty">Open a model first.</p>}
          <div class="segmented" role="radiogroup" aria-label="What to learn">
            {allowed.map(([name, label]) => (
              <button key={name} role="radio" aria-checked={command === name} onClick={() => setChosen(name)}>{label}</button>
            ))}
          </div>
          {["learn", "structure", "field-learn"].includes(command) && predicates.length > 0 && (
            <fieldset>
              <legend>{command === "structure" ? "Rules for" : "Predict"} <small class="faint">(none chosen: all)</small></legend>
              <div class="chips">
                {predicates.map((name) => (
                  <button key={name} class={`chip ${targets.includes(name) ? "on" : ""}`} aria-pressed={targets.includes(name)} onClick={() => toggle(name)}>{name}</button>
                ))}
              </div>
            </fieldset>
          )}
          <details class="more" open={command !== "circuit-learn"}>
            <summary>Method and limits</summary>
            <div class="grid2">
              {command === "learn" && (
                <>
                  <Choice label="Objective" value={options.objective} names={about.value?.methods.objective ?? []} set={(v) => set("objective", v)} />
                  <Choice label="Optimizer" value={options.optimizer} names={about.value?.methods.optimizer ?? []} set={(v) => set("optimizer", v)} />
                  <label class="field"><span class="label">Prior</span>
                    <input value={options.prior ?? ""} placeholder="gaussian:2, l1:1, none" onChange={(e) => set("prior", e.currentTarget.value)} />
                  </label>
                </>
              )}
              {command === "structure" && (
                <>
                  <Choice label="Method" value={options.method} names={about.value?.methods.structure ?? []} set={(v) => set("method", v)} />
                  <label class="field"><span class="label">Literals at most</span>
                    <input type="number" min="2" max="8" value={options.max_literals ?? ""} placeholder="auto" onChange={(e) => set("max_literals", e.currentTarget.valueAsNumber)} />
                  </label>
                </>
              )}
              <label class="field"><span class="label">Time limit (s)</span>
                <input type="number" min="0" value={options.time_limit ?? ""} placeholder="none" onChange={(e) => set("time_limit", e.currentTarget.valueAsNumber)} />
              </label>
            </div>
          </details>
          {needsData && <p class="note warn">Learning needs data. <button class="link" onClick={() => openTab("data")}>Add files</button></p>}
          <div class="row"><button class="primary big" disabled={!allowed.length || needsData || mistakes.value.length > 0} onClick={() => void go()}>Learn</button></div>
          {lessons.value.length > 0 && (
            <nav class="runs" aria-label="Learning runs">
              <h3>Runs</h3>
              <ul>{lessons.value.slice(0, 8).map((each) => (
                <li key={each.id} class={each.id === run?.id ? "on" : ""}>
                  <button class="link" onClick={() => { setId(each.id); void loadResult(each).catch(fail); }}>
                    <span class={`dot ${each.status}`} aria-hidden="true" /><span class="ellipsis">{each.command} · {each.request.model}</span>
                    <span class="faint">{each.status === "done" ? `${each.seconds.toFixed(1)} s` : each.status}</span>
                  </button>
                </li>
              ))}</ul>
            </nav>
          )}
        </div>
      </section>
      <div class="column">{run ? <Lesson key={run.id} run={run} /> : <section class="card tall-empty"><p class="empty">Weights and rules appear here.</p></section>}</div>
    </div>
  );
}

const KNOWN: Record<string, string[]> = {
  learn: ["query", "objective", "optimizer", "prior", "time_limit", "max_iterations", "unobserved"],
  structure: ["query", "method", "max_literals", "max_variables", "max_clauses", "time_limit", "penalty"],
  "field-learn": ["query", "time_limit", "prior", "max_iterations", "random_state", "restarts"],
  "circuit-learn": ["time_limit", "edge_costs", "method", "num_components"],
};

function Choice(props: { label: string; value: string | undefined; names: string[]; set: (value: string) => void }) {
  return (
    <label class="field"><span class="label">{props.label}</span>
      <select value={props.value ?? ""} onChange={(e) => props.set(e.currentTarget.value)}>
        <option value="">auto</option>
        {props.names.map((name) => <option key={name}>{name}</option>)}
      </select>
    </label>
  );
}

function Lesson({ run }: { run: JobState }) {
  const result = results.value[run.id];
  if (isOver(run) && !result && run.summary !== null) void loadResult(run).catch(fail);
  const document_ = result?.document as any;
  const points: [number, number][] = document_?.curve?.length
    ? document_.curve.filter((p: any) => (p.value ?? p.gradient_norm) !== null).map((p: any) => [p.iteration, p.value ?? p.gradient_norm])
    : (run.curve as [number, number][]);
  const x = useMemo(() => points.map((p) => p[0]), [points.length, result]);
  const lines = useMemo(() => [{ label: "objective", values: points.map((p) => p[1]) }], [points.length, result]);
  return (
    <>
      {!isOver(run) && <ProgressCard run={run} />}
      {run.error && <section class="card" role="alert"><div class="note bad"><pre>{run.error.text}</pre></div></section>}
      {points.length > 1 && (
        <section class="card" aria-label="Learning curve">
          <header class="card-head"><h2>{isOver(run) ? "Curve" : "Learning…"}</h2></header>
          <div class="pad"><Curve x={x} lines={lines} xlabel="iterations" ylabel={document_?.objective ?? "objective"} /></div>
        </section>
      )}
      {result && run.command === "structure" && <Rules result={result} />}
      {result && ["learn", "field-learn"].includes(run.command) && <Weights result={result} />}
      {result && run.command === "circuit-learn" && <Circuit run={run} result={result} />}
      {result?.drawing && (
        <section class="card drawing" aria-label="Drawing">
          <header class="card-head"><h2>Drawing</h2></header>
          <div class="scroll-x pad"><img src={api.drawingAddress(run.id)} alt={`Drawing of the result of ${run.command}`} /></div>
        </section>
      )}
      {result && <section class="card" aria-label="Code"><div class="pad"><Code result={result} /></div></section>}
    </>
  );
}

function replaceModel(text: string): void {
  const view = editor.view;
  if (!view) return;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, userEvent: "input" });
  say("the model has the learned weights; undo with Ctrl+Z in the editor");
  openTab("model");
}

function Weights({ result }: { result: JobResult }) {
  const document_ = result.document as any;
  const about_: Record<string, string> = Object.fromEntries((document_.unbounded ?? []).map((u: any) => [u.formula, u.reason]));
  const rows: WeightRow[] = (document_.weights ?? []).slice(0, 300).map((row: any) => ({ ...row, warning: about_[row.formula] }));
  return (
    <section class="card" aria-label="Weights">
      <header class="card-head wrap">
        <h2>{result.summary}</h2><span class="grow" />
        {result.text && kind.value === "model" && <button class="primary" onClick={() => replaceModel(result.text!)}>Use these weights</button>}
      </header>
      {result.remarks.filter((remark) => !Object.keys(about_).some((f) => remark.includes(f))).map((remark) => <p class="note warn" key={remark}>{remark}</p>)}
      <WeightBars rows={rows} />
    </section>
  );
}

interface RuleRow {
  formula: string; weight: number; gain: number | null; support: number | null; true: number; groundings: number;
  words: string; examples: string[]; counterexamples: string[];
}

function Rules({ result }: { result: JobResult }) {
  const rules = ((result.document as any).rules as RuleRow[]) ?? [];
  const [done, setDone] = useState<Record<number, "accepted" | "rejected">>({});
  const accept = (rule: RuleRow, n: number) => {
    appendText(`${Number(rule.weight.toFixed(4))} ${rule.formula}`);
    setDone((old) => ({ ...old, [n]: "accepted" }));
  };
  const open = rules.map((rule, n) => ({ rule, n })).filter(({ n }) => !done[n]);
  return (
    <section class="card" aria-label="Rules">
      <header class="card-head wrap">
        <h2>{result.summary}</h2><span class="grow" />
        <button disabled={!open.length} onClick={() => open.forEach(({ rule, n }) => accept(rule, n))}>Accept all</button>
        <button class="quiet" onClick={() => openTab("model")}>Show the model</button>
      </header>
      {result.remarks.map((remark) => <p class="note warn" key={remark}>{remark}</p>)}
      <ol class="rules">
        {rules.map((rule, n) => (
          <li key={n} class={done[n] ?? ""}>
            <div class="rule">
              <code>{rule.weight.toFixed(3)} {rule.formula}</code>
              {rule.words && <p class="words">{rule.words.split("; odds")[0]}</p>}
              <p class="meta">
                {rule.gain !== null && <span>gain {rule.gain.toFixed(4)}</span>}
                {rule.support !== null && <span>{rule.support.toLocaleString()} in support</span>}
                <span>{rule.true.toLocaleString()} of {rule.groundings.toLocaleString()} true</span>
              </p>
              {rule.examples.length > 0 && <p class="example good">{rule.examples[0]}</p>}
              {rule.counterexamples.length > 0 && <p class="example bad">{rule.counterexamples[0]}</p>}
            </div>
            <div class="row">
              {done[n] ? (
                <>
                  <span class={`tag ${done[n]}`}>{done[n]}</span>
                  {done[n] === "rejected" && <button class="small quiet" onClick={() => setDone(({ [n]: _, ...rest }) => rest)}>Undo</button>}
                </>
              ) : (
                <>
                  <button class="small primary" aria-label={`Accept ${rule.formula}`} onClick={() => accept(rule, n)}>Accept</button>
                  <button class="small" aria-label={`Reject ${rule.formula}`} onClick={() => setDone((old) => ({ ...old, [n]: "rejected" }))}>Reject</button>
                </>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Circuit({ run, result }: { run: JobState; result: JobResult }) {
  const [view, setView] = useState(emptyView());
  const fetch = useMemo(() => (request: any, signal: AbortSignal) => api.rows(run.id, request, signal), [run.id]);
  const figures = Object.entries(result.document as Record<string, unknown>).filter(([, v]) => typeof v === "number") as [string, number][];
  return (
    <section class="card" aria-label="Circuit">
      <header class="card-head wrap"><h2>{result.summary}</h2></header>
      {result.remarks.map((remark) => <p class="note" key={remark}>{remark}</p>)}
      <p class="meta pad">{figures.map(([name, value]) => <span key={name}>{name.replace(/_/g, " ")} {Number.isInteger(value) ? value.toLocaleString() : value.toPrecision(5)}</span>)}</p>
      <Table source={run.id} fetch={fetch} columns={result.columns} predicates={[]} view={view} onView={setView} selected={null} onSelect={() => undefined} label="Marginals of the circuit" />
    </section>
  );
}
