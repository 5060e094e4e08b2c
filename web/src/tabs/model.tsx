// The model: its text, each formula in words, weights as sliders that answer at once.
import { useEffect, useMemo } from "preact/hooks";
import { Editor, goTo, replaceText } from "../editor";
import type { FormulaCard } from "../contract";
import {
  askLive, baseline, change, check, chooseModel, files, isText, kind, live, liveError, mistakes,
  newModel, openTab, saved, text, weights, workspace, fail,
} from "../state";

export function ModelTab() {
  const { model, query, data, evidence } = workspace.value;
  const asked = query.length > 0 && mistakes.value.length === 0 && !!model;
  const stamp = useMemo(() => JSON.stringify([query, data, evidence]), [query, data, evidence]);
  useEffect(() => {
    if (!asked) return;
    const timer = setTimeout(() => void askLive(true), 250);
    return () => clearTimeout(timer);
  }, [check.value, stamp]);
  const models = files.value.filter((file) => ["model", "network", "field"].includes(file.kind));
  return (
    <div class="split model-tab">
      <section class="card flush editor-card" aria-label="Model">
        <header class="card-head">
          <select aria-label="Model file" value={model ?? ""}
            onChange={(e) => chooseModel(e.currentTarget.value).catch(fail)}>
            {!model && <option value="">no model</option>}
            {models.map((file) => <option key={file.path} value={file.path}>{file.path}</option>)}
            {model && !models.some((file) => file.path === model) && <option value={model}>{model}</option>}
          </select>
          <button class="quiet" onClick={() => newModel().catch(fail)}>New</button>
          <span class="grow" />
          <span class={`status ${mistakes.value.length ? "bad" : "good"}`} role="status">
            {mistakes.value.length ? "✕ " : check.value.summary ? "✓ " : ""}
            {check.value.summary}
          </span>
          <span class="saved" role="status">{saved.value ? "saved" : "saving…"}</span>
        </header>
        {!model ? <Empty />
          : isText(model) ? <Editor key="editor" />
          : <p class="empty">This file is not shown as text.</p>}
        {mistakes.value.length > 0 && (
          <ul class="mistakes" aria-label="Mistakes">
            {mistakes.value.slice(0, 20).map((mark, n) => (
              <li key={n}>
                <button class="link" onClick={() => goTo(mark.start)}>line {mark.line}</button>
                <span>{mark.message}{mark.hint ? <em> — {mark.hint}</em> : null}</span>
                {mark.fix && (
                  <button class="small" onClick={() => replaceText(mark.start, mark.end, mark.fix!)}>
                    Replace by {mark.fix}
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
      </section>
      <div class="column">
        <LivePanel />
        <section class="card" aria-label="Formulas in words">
          <header class="card-head">
            <h2>In words</h2>
            <span class="grow" />
            {Object.keys(weights.value).length > 0 && (
              <button class="quiet" onClick={() => { weights.value = {}; void askLive(); }}>Reset sliders</button>
            )}
          </header>
          {check.value.formulas.length === 0 && (
            <p class="empty">{kind.value === "network"
              ? `A network of ${check.value.predicates.length} variables.`
              : "Formulas appear here in words while you type."}</p>
          )}
          <ol class="formulas">
            {check.value.formulas.slice(0, 200).map((card) => <Card key={`${card.index}-${card.formula}`} card={card} />)}
          </ol>
        </section>
      </div>
    </div>
  );
}

const Empty = () => (
  <div class="empty tall-empty">
    <p>No model yet.</p>
    <p class="row center">
      <button class="primary" onClick={() => newModel().catch(fail)}>New model</button>
      <button onClick={() => openTab("gallery")}>Open the gallery</button>
    </p>
  </div>
);

function Card({ card }: { card: FormulaCard }) {
  const moved = weights.value[card.index];
  const weight = moved ?? card.weight ?? 0;
  const reach = Math.max(5, Math.ceil(Math.abs(card.weight ?? 0) * 2));
  const movable = card.weight !== null && !card.hard && card.weight_start !== null && !card.plus;
  const [head, odds] = splitWords(card.words);
  function keep(value: number) {
    if (card.weight_start === null || card.weight_end === null) return;
    const number = String(Number(value.toFixed(3)));
    const rest = { ...weights.value };
    delete rest[card.index];
    weights.value = rest;
    replaceText(card.weight_start, card.weight_end, number);
  }
  function slide(value: number) {
    weights.value = { ...weights.value, [card.index]: value };
    void askLive();
  }
  return (
    <li class="formula">
      <button class="link code" onClick={() => goTo(card.start)} title="Show in the editor">{card.formula}</button>
      <p class="words">{head}</p>
      <p class="meta">
        <span>{movable && moved !== undefined ? oddsOf(moved) : odds}</span>
        {card.groundings !== null && <span>{card.groundings.toLocaleString()} groundings</span>}
        {card.hard && <span class="tag">hard</span>}
      </p>
      {movable && (
        <div class="slider">
          <input type="range" min={-reach} max={reach} step="0.05" value={weight}
            aria-label={`Weight of ${card.formula}`}
            onInput={(e) => slide(Number(e.currentTarget.value))}
            onChange={(e) => keep(Number(e.currentTarget.value))} />
          <input type="number" step="0.1" class="weight" value={Number(weight.toFixed(3))}
            aria-label={`Weight of ${card.formula}, as a number`}
            onChange={(e) => Number.isFinite(e.currentTarget.valueAsNumber) && keep(e.currentTarget.valueAsNumber)} />
        </div>
      )}
    </li>
  );
}

function splitWords(words: string): [string, string] {
  const at = words.lastIndexOf("; ");
  return at < 0 ? [words, ""] : [words.slice(0, at), words.slice(at + 2)];
}
function oddsOf(weight: number): string {
  if (weight === 0) return "weight 0: no preference";
  const side = weight > 0 ? "in favour" : "against";
  return `odds e^${Math.abs(weight).toFixed(2)} = ${Math.exp(Math.abs(weight)).toPrecision(3)} ${side}`;
}

function LivePanel() {
  const found = live.value;
  const before = new Map((baseline.value?.atoms ?? []).map((row) => [row.atom, row.probability]));
  const predicates = check.value.predicates.map((predicate) => predicate.name);
  const { query } = workspace.value;
  return (
    <section class="card" aria-label="Answers at once">
      <header class="card-head">
        <h2>At once</h2>
        <span class="grow" />
        {found && (
          <span class="faint small-text">
            {found.exact ? "exact" : "approximate"}, {Math.max(1, Math.round(1000 * found.seconds))} ms
          </span>
        )}
      </header>
      {query.length === 0 && predicates.length > 0 && (
        <p class="empty">
          Choose what to ask:{" "}
          {predicates.slice(0, 12).map((name) => (
            <button class="chip" key={name} onClick={() => change({ query: [name] })}>{name}</button>
          ))}
        </p>
      )}
      {liveError.value && query.length > 0 && <p class="note">{liveError.value.message}</p>}
      {found && (
        <ul class="live" aria-label="Probabilities" aria-live="off">
          {found.atoms.slice(0, 14).map((row) => {
            const was = before.get(row.atom) ?? row.probability;
            const moved = row.probability - was;
            return (
              <li key={row.atom}>
                <span class="name" title={row.atom}>{row.atom}</span>
                <span class="ptrack">
                  <span style={{ width: `${100 * row.probability}%` }} />
                  <i style={{ left: `${100 * was}%` }} />
                </span>
                <span class="pnum">{row.probability.toFixed(3)}</span>
                <span class={`delta ${moved > 0 ? "up" : "down"}`}>
                  {Math.abs(moved) > 5e-4 ? `${moved > 0 ? "+" : "−"}${Math.abs(moved).toFixed(3)}` : ""}
                </span>
              </li>
            );
          })}
          {found.total > 14 && <li class="faint more">and {(found.total - 14).toLocaleString()} more in Ask</li>}
        </ul>
      )}
      {!found && query.length > 0 && !liveError.value && text.value && mistakes.value.length === 0 && (
        <p class="empty"><span class="spinner" /> answering…</p>
      )}
    </section>
  );
}
