// Questions: what is asked, what is known, the plan, the run, its answer.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, isOver } from "../api";
import { Bars, Calibration, Curve } from "../charts";
import type { FiguresReply, JobCommand, JobResult, JobState, RowsRequest } from "../contract";
import {
  about, ask, asks, bare, change, check, current, fail, files, forget, kind, mistakes, observe,
  observed, openTab, results, say, show, whyAtom, workspace,
} from "../state";
import { emptyView, Filters, Table, type Cell } from "../table";

const COMMANDS: [JobCommand, string, string[]][] = [
  ["infer", "Probabilities", ["model", "network"]],
  ["map", "Most likely world", ["model", "network"]],
  ["lift", "Lifted counting", ["model"]],
  ["count", "Counts in the data", ["model"]],
  ["field-infer", "Probabilities (field)", ["field"]],
];

export function AskTab() {
  return (
    <div class="split ask-tab">
      <Question />
      <div class="column"><AnswerView /></div>
    </div>
  );
}

function Question() {
  const state = workspace.value;
  const [fact, setFact] = useState("");
  const [formula, setFormula] = useState("");
  const [plan, setPlan] = useState<any>(null);
  const options = state.options as Record<string, any>;
  const allowed = COMMANDS.filter(([, , kinds]) => kinds.includes(kind.value));
  const command = allowed.some(([name]) => name === state.command) ? state.command : allowed[0]?.[0] ?? "infer";
  useEffect(() => {
    if (command !== state.command && allowed.length && !["learn", "structure", "field-learn", "circuit-learn"].includes(state.command)) {
      change({ command });
    }
  }, [command]);
  useEffect(() => setPlan(null), [state.model, state.query, state.evidence, state.options, check.value]);
  const predicates = check.value.predicates.map((predicate) => predicate.name);
  const extra = state.query.filter((name) => !predicates.includes(name));
  const methods = about.value?.methods[command === "field-infer" ? "field infer" : command] ?? [];
  const toggle = (name: string) =>
    change({ query: state.query.includes(name) ? state.query.filter((q) => q !== name) : [...state.query, name] });
  const setOption = (name: string, value: unknown) => {
    const next: Record<string, unknown> = { ...options, [name]: value };
    if (value === null || value === "" || Number.isNaN(value)) delete next[name];
    change({ options: next });
  };
  function addFact(event: Event) {
    event.preventDefault();
    const trimmed = fact.trim();
    if (!trimmed) return;
    const sign = /^[!?]/.exec(trimmed)?.[0];
    observe(bare(trimmed), sign === "!" ? "false" : sign === "?" ? "unknown" : "true");
    setFact("");
  }
  function addFormula(event: Event) {
    event.preventDefault();
    if (formula.trim() && !state.query.includes(formula.trim())) change({ query: [...state.query, formula.trim()] });
    setFormula("");
  }
  async function showPlan() {
    try {
      const asked: Record<string, unknown> = { query: state.query, evidence: state.evidence };
      for (const name of ["method", "precision", "max_samples"]) if (name in options) asked[name] = options[name];
      if (!state.evidence.length) delete asked.evidence;
      setPlan(await api.plan({ model: state.model!, data: state.data, options: asked }));
    } catch (error) {
      fail(error);
    }
  }
  const ready = !!state.model && mistakes.value.length === 0;
  return (
    <section class="card question" aria-label="Question">
      <header class="card-head"><h2>Question</h2><span class="grow" /><span class="faint ellipsis">{state.model ?? "no model"}</span></header>
      <div class="pad stack">
        {!state.model && (
          <p class="empty">Open a problem of the <button class="link" onClick={() => openTab("gallery")}>gallery</button>, or drop a model on the page.</p>
        )}
        <div class="segmented" role="radiogroup" aria-label="What to compute">
          {allowed.map(([name, label]) => (
            <button key={name} role="radio" aria-checked={command === name} onClick={() => change({ command: name })}>{label}</button>
          ))}
        </div>
        {command !== "count" && (
          <fieldset>
            <legend>Ask for</legend>
            <div class="chips">
              {predicates.slice(0, 60).map((name) => (
                <button key={name} class={`chip ${state.query.includes(name) ? "on" : ""}`}
                  aria-pressed={state.query.includes(name)} onClick={() => toggle(name)}>{name}</button>
              ))}
              {extra.map((name) => (
                <span class="chip on" key={name}>{name}
                  <button class="x" aria-label={`Do not ask for ${name}`} onClick={() => toggle(name)}>×</button>
                </span>
              ))}
            </div>
            <form onSubmit={addFormula} class="row">
              <input value={formula} aria-label="An atom or a formula to ask for" placeholder="an atom or a formula…"
                onInput={(e) => setFormula(e.currentTarget.value)} />
              <button type="submit" class="quiet" disabled={!formula.trim()}>Add</button>
            </form>
          </fieldset>
        )}
        {(command === "infer" || command === "map") && (
          <fieldset>
            <legend>What if</legend>
            <div class="chips">
              {state.evidence.map((each) => (
                <span class={`chip evidence is-${each.startsWith("!") ? "false" : each.startsWith("?") ? "unknown" : "true"}`} key={each}>
                  {bare(each)} {each.startsWith("!") ? "is false" : each.startsWith("?") ? "is unknown" : kind.value === "network" ? "" : "is true"}
                  <button class="x" aria-label={`Remove ${each}`} onClick={() => observe(bare(each), null)}>×</button>
                </span>
              ))}
              {!state.evidence.length && <span class="hint">Click a row of the answer or of the data, or type a fact.</span>}
            </div>
            <form onSubmit={addFact} class="row">
              <input value={fact} aria-label="A fact" placeholder={kind.value === "network" ? "variable=state" : "!Smokes(Anna)"}
                onInput={(e) => setFact(e.currentTarget.value)} />
              <button type="submit" class="quiet" disabled={!fact.trim()}>Add</button>
            </form>
          </fieldset>
        )}
        {["infer", "map", "lift", "field-infer"].includes(command) && (
          <details class="more">
            <summary>Method and limits</summary>
            <div class="grid2">
              <label class="field"><span class="label">Method</span>
                <select value={options.method ?? "auto"} onChange={(e) => setOption("method", e.currentTarget.value === "auto" ? null : e.currentTarget.value)}>
                  {methods.map((name) => <option key={name}>{name}</option>)}
                </select>
              </label>
              {["infer", "field-infer"].includes(command) && (
                <label class="field"><span class="label">Precision (standard error)</span>
                  <input type="number" step="0.001" min="0" value={options.precision ?? ""} placeholder="0.01"
                    onChange={(e) => setOption("precision", e.currentTarget.valueAsNumber)} />
                </label>
              )}
              <label class="field"><span class="label">Time limit (s)</span>
                <input type="number" min="0" value={options.time_limit ?? ""} placeholder="none"
                  onChange={(e) => setOption("time_limit", e.currentTarget.valueAsNumber)} />
              </label>
              {command === "infer" && (
                <label class="check"><input type="checkbox" checked={!!options.bounds}
                  onChange={(e) => setOption("bounds", e.currentTarget.checked || null)} /> certified bounds</label>
              )}
            </div>
          </details>
        )}
        <div class="row wrap">
          <button class="primary big" disabled={!ready} onClick={() => void ask()} title="Ctrl+Enter">Ask</button>
          {command === "infer" && <button disabled={!ready} onClick={() => void showPlan()}>Plan</button>}
        </div>
        {plan && <PlanView plan={plan} />}
        <Runs />
      </div>
    </section>
  );
}

function PlanView({ plan }: { plan: any }) {
  const memory = (bytes: number) => (bytes > 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes > 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : bytes ? `${Math.ceil(bytes / 1000)} kB` : "");
  const time = (seconds: number | null) => (seconds === null ? "" : seconds < 0.01 ? "< 0.01 s" : `${seconds.toPrecision(2)} s`);
  return (
    <div class="plan" role="region" aria-label="Plan">
      <p><b>{plan.summary}</b></p>
      <ol>
        {plan.steps.map((step: any, n: number) => (
          <li key={n}>
            <b>{step.solvers.join(" or ")}</b>{" "}
            {step.components ? <>takes {step.components.toLocaleString()} component{step.components === 1 ? "" : "s"} ({step.atoms.toLocaleString()} atoms, the largest {step.largest_component.toLocaleString()})</>
              : step.atoms ? <>{step.atoms.toLocaleString()} atoms</> : null}
            <span class="faint">{[step.reason, memory(step.bytes), time(step.guessed_seconds)].filter(Boolean).map((part) => ` · ${part}`).join("")}</span>
          </li>
        ))}
      </ol>
      {plan.remarks.map((remark: string) => <p class="hint" key={remark}>{remark}</p>)}
    </div>
  );
}

function Runs() {
  const listed = asks.value.slice(0, 8);
  if (!listed.length) return null;
  return (
    <nav class="runs" aria-label="Runs">
      <h3>Runs</h3>
      <ul>
        {listed.map((run) => (
          <li key={run.id} class={run.id === current.value?.id ? "on" : ""}>
            <button class="link" aria-current={run.id === current.value?.id} onClick={() => void show(run.id).catch(fail)}>
              <span class={`dot ${run.status}`} aria-hidden="true" />
              <span class="ellipsis">{run.title}</span>
              <span class="faint">{run.status === "done" ? `${run.seconds.toFixed(1)} s` : run.status}</span>
            </button>
            <button class="x" aria-label={`Delete the run ${run.title}`} onClick={() => void forget(run.id).catch(fail)}>×</button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function AnswerView() {
  const run = current.value;
  if (!run) {
    return (
      <section class="card tall-empty"><p class="empty">The answer appears here.</p></section>
    );
  }
  const result = results.value[run.id];
  return (
    <>
      {!isOver(run) && <ProgressCard run={run} />}
      {run.error && (
        <section class="card" role="alert">
          <header class="card-head"><h2>{run.status === "stopped" ? "Stopped" : "No answer"}</h2></header>
          <div class="note bad"><pre>{run.error.text}</pre>{run.error.hint && <p>{run.error.hint}</p>}</div>
        </section>
      )}
      {result && <ResultView key={run.id} run={run} result={result} />}
    </>
  );
}

export function ProgressCard({ run }: { run: JobState }) {
  const progress = run.progress;
  const share = progress?.total ? Math.min(1, progress.done / progress.total) : null;
  const figures = progress?.figures ?? {};
  const left = figures["seconds left"];
  const stop = async (now: boolean) => {
    try {
      await api.stop(run.id, now);
    } catch (error) {
      fail(error);
    }
  };
  return (
    <section class="card progress" aria-label="Progress" aria-live="polite">
      <header class="card-head">
        <span class="spinner" />
        <h2>{run.status === "queued" ? "Waiting for a place" : run.status === "stopping" ? "Stopping" : progress?.phase ?? "Starting"}</h2>
        <span class="grow" />
        <span class="faint">{run.seconds.toFixed(1)} s</span>
        {run.status === "stopping"
          ? <button class="danger" onClick={() => void stop(true)}>End now</button>
          : <button onClick={() => void stop(false)} title="Ends the run and keeps what there is">Stop</button>}
      </header>
      <div class="pad stack">
        <div class={`bar-track${share === null ? " unknown" : ""}`} role="progressbar"
          aria-label={progress?.phase ?? "waiting"} aria-valuenow={share === null ? undefined : Math.round(100 * share)}>
          <span style={{ width: `${100 * (share ?? 0.3)}%` }} />
        </div>
        <p class="meta">
          {progress?.total ? <span>{progress.done.toLocaleString()} of {progress.total.toLocaleString()}</span>
            : progress?.done ? <span>{progress.done.toLocaleString()}</span> : null}
          {typeof left === "number" && left > 0 && <span>about {Math.max(1, Math.round(left)).toLocaleString()} s left</span>}
          {Object.entries(figures).filter(([name, value]) => name !== "seconds left" && value !== null).map(([name, value]) => (
            <span key={name}>{name === "rhat" ? "R-hat" : name} {value!.toPrecision(4)}</span>
          ))}
          {progress?.text && <span class="ellipsis">{progress.text}</span>}
        </p>
      </div>
    </section>
  );
}

function ResultView({ run, result }: { run: JobState; result: JobResult }) {
  const [view, setView] = useState<RowsRequest>(() => ({
    ...emptyView(),
    sort: result.columns.includes("probability") ? "probability" : null,
    descending: result.columns.includes("probability"),
  }));
  const [row, setRow] = useState<Cell[] | null>(null);
  const [side, setSide] = useState<"bars" | "calibration" | "chains" | "code">("bars");
  const atom = row ? String(row[0]) : null;
  const document_ = result.document as any;
  const hasP = result.columns.includes("probability");
  const sides = ([hasP && "bars", hasP && "calibration", document_.chains && "chains", "code"] as const).filter(Boolean) as (typeof side)[];
  const picked = sides.includes(side) ? side : sides[0];
  const fetch = useMemo(() => (request: RowsRequest, signal: AbortSignal) => api.rows(run.id, request, signal), [run.id]);
  const explain = (name: string) => {
    whyAtom.value = name;
    openTab("why");
  };
  return (
    <>
      <section class="card answer" aria-label="Answer">
        <header class="card-head wrap">
          <h2>{result.summary}</h2>
          <span class="grow" />
          <span class={`tag ${document_.exact === false || document_.optimal === false ? "approx" : "exact"}`}>
            {document_.exact === undefined && document_.optimal === undefined ? result.command
              : document_.exact || document_.optimal ? "exact" : "approximate"}
          </span>
          {["csv", "parquet", "json"].map((format) => (
            <a key={format} class="button small" href={api.exportAddress(run.id, format)} download>{format.toUpperCase()}</a>
          ))}
        </header>
        {result.remarks.map((remark) => <p class="note warn" key={remark}>{remark}</p>)}
        {result.drawing && (
          <details class="drawing" open={result.num_rows < 30}>
            <summary>Drawing</summary>
            <div class="scroll-x"><img src={api.drawingAddress(run.id)} alt={`Drawing of the ${result.command} result`} /></div>
          </details>
        )}
        <Filters columns={result.columns} predicates={result.predicates} view={view} onView={setView} />
        <Table source={run.id} fetch={fetch} columns={result.columns} predicates={result.predicates} view={view}
          onView={setView} selected={atom} onSelect={setRow} label="Answer"
          onOpen={hasP ? (found) => explain(String(found[0])) : undefined}
          hidden={document_.exact ? ["stderr"] : []} marked={(found) => observed(String(found[0]))} />
        {atom && hasP && (
          <footer class="selection" aria-label={`Selected: ${atom}`}>
            <b class="ellipsis">{atom}</b>
            <span class="grow" />
            <span class="faint hide-small">What if it were</span>
            <span class="segmented tight">
              {(kind.value === "network" ? (["true"] as const) : (["true", "false", "unknown"] as const)).map((value) => (
                <button key={value} aria-pressed={observed(atom) === value}
                  onClick={() => {
                    observe(atom, observed(atom) === value ? null : value);
                    void ask();
                  }}>{value}</button>
              ))}
            </span>
            <button class="primary" onClick={() => explain(atom)}>Why?</button>
          </footer>
        )}
      </section>
      <section class="card" aria-label="Figures">
        <div class="subtabs" role="tablist" aria-label="Figures">
          {sides.map((name) => (
            <button key={name} role="tab" aria-selected={picked === name} onClick={() => setSide(name)}>
              {{ bars: "Distribution", calibration: "Calibration", chains: "Chains", code: "Code" }[name]}
            </button>
          ))}
        </div>
        <div class="pad" role="tabpanel">
          {picked === "code" ? <Code result={result} /> : <Figures run={run} side={picked} predicate={view.predicate} />}
        </div>
      </section>
    </>
  );
}

function Figures({ run, side, predicate }: { run: JobState; side: "bars" | "calibration" | "chains"; predicate: string | null }) {
  const [found, setFound] = useState<FiguresReply | null>(null);
  const truth = workspace.value.truth ?? null;
  const wanted = side === "calibration" ? truth : null;
  useEffect(() => {
    setFound(null);
    api.figures(run.id, { predicate, truth: wanted, chains: side === "chains" }).then(setFound).catch(fail);
  }, [run.id, side, predicate, wanted]);
  const lines = useMemo(
    () => (found?.chains ?? []).map((values, n) => ({ label: `chain ${n + 1}`, values })), [found]);
  const x = useMemo(() => (lines[0]?.values ?? []).map((_, n) => n), [lines]);
  const choices = files.value.filter((file) => file.kind === "data");
  return (
    <>
      {side === "calibration" && (
        <label class="field"><span class="label">Data with the truth</span>
          <select value={truth ?? ""} onChange={(e) => change({ truth: e.currentTarget.value || null })}>
            <option value="">choose a file…</option>
            {choices.map((file) => <option key={file.path}>{file.path}</option>)}
          </select>
        </label>
      )}
      {!found && <p class="empty"><span class="spinner" /></p>}
      {found && side === "bars" && <Bars bins={found.bins} />}
      {found && side === "calibration" && (truth ? <Calibration bins={found.bins} error={found.error} />
        : <p class="hint">Facts of that file are taken as true, all other atoms as false.</p>)}
      {found && side === "chains" && (
        <>
          <p class="hint">Running means of {found.slowest}, the atom that mixes slowest. The chains should agree.</p>
          <Curve x={x} lines={lines} xlabel="draws" ylabel="running mean" range={[0, 1]} />
        </>
      )}
    </>
  );
}

export function Code({ result }: { result: JobResult }) {
  const [python, setPython] = useState(true);
  const code = python ? result.python : result.shell;
  return (
    <div class="code">
      <div class="row">
        <span class="segmented tight">
          <button aria-pressed={python} onClick={() => setPython(true)}>Python</button>
          <button aria-pressed={!python} onClick={() => setPython(false)}>Command line</button>
        </span>
        <span class="grow" />
        <button class="quiet" onClick={() => navigator.clipboard.writeText(code).then(() => say("copied")).catch(fail)}>Copy</button>
      </div>
      <pre tabIndex={0} aria-label="Code that gives the same answer">{code}</pre>
    </div>
  );
}
