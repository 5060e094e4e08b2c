// Why an atom is as probable as it is.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { Absences, Neighbourhood, Sensitivities, Waterfall, Words, type Explained } from "../explanation";
import { ask, bare, current, fail, observe, observed, openTab, results, say, whyAtom } from "../state";

export function WhyTab() {
  const run = current.value;
  const result = run ? results.value[run.id] : null;
  const atom = whyAtom.value;
  const [found, setFound] = useState<Explained | null>(null);
  const [message, setMessage] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [path, setPath] = useState<string[]>([]);
  const [names, setNames] = useState<string[]>([]);
  const [typed, setTyped] = useState("");
  const explained = result && run && result.columns.includes("probability") && ["infer", "field-infer"].includes(run.command);

  useEffect(() => {
    if (!run || !explained) return;
    const view = { sort: "probability", descending: true, predicate: null, arguments: {}, text: "", low: null, high: null, offset: 0, limit: 200 };
    api.rows(run.id, view).then((reply) => setNames(reply.rows.map((row) => String(row[0])))).catch(fail);
  }, [run?.id, explained]);
  useEffect(() => {
    if (!run || !atom || !explained) return;
    let stale = false;
    setBusy(true);
    api.why(run.id, atom)
      .then((reply) => {
        if (stale) return;
        setFound(reply.explanation as Explained | null);
        setMessage(reply.message);
        setPath((old) => (old.at(-1) === atom ? old : [...old.filter((each) => each !== atom), atom].slice(-8)));
      })
      .catch((error) => !stale && (setFound(null), setMessage(null), fail(error)))
      .finally(() => !stale && setBusy(false));
    return () => { stale = true; };
  }, [run?.id, atom, explained]);

  if (!run || !explained) {
    return (
      <section class="card tall-empty">
        <p class="empty">Ask for probabilities first, then choose an atom. <button class="link" onClick={() => openTab("ask")}>Ask</button></p>
      </section>
    );
  }
  const walk = (next: string) => (whyAtom.value = next);
  const tryFact = (text: string, becomes: string | undefined) => {
    observe(bare(text), becomes === "unknown" ? "unknown" : text.startsWith("!") ? "true" : "false");
    void ask();
    say(`asked again: what if ${text} were not so?`);
    openTab("ask");
  };
  return (
    <div class="column wide">
      <section class="card" aria-label="Atom">
        <form class="row wrap pad" onSubmit={(e) => { e.preventDefault(); if (typed.trim()) walk(typed.trim()); }}>
          <label class="field grow"><span class="label">Why is</span>
            <input list="atoms" value={typed || atom || ""} placeholder="an atom of the answer" aria-label="Atom to explain"
              onInput={(e) => setTyped(e.currentTarget.value)}
              onChange={(e) => { const v = e.currentTarget.value.trim(); if (names.includes(v)) { setTyped(""); walk(v); } }} />
            <datalist id="atoms">{names.map((name) => <option key={name} value={name} />)}</datalist>
          </label>
          <button class="primary" type="submit">Explain</button>
          {atom && (
            <span class="segmented tight" role="group" aria-label={`What if ${atom} were`}>
              {(["true", "false"] as const).map((value) => (
                <button type="button" key={value} aria-pressed={observed(atom) === value} onClick={() => { observe(atom, value); void ask(); openTab("ask"); }}>
                  what if {value}
                </button>
              ))}
            </span>
          )}
        </form>
        {path.length > 1 && (
          <nav class="chips pad" aria-label="Path">
            {path.map((each) => <button key={each} class={`chip ${each === atom ? "on" : ""}`} onClick={() => walk(each)}>{each}</button>)}
          </nav>
        )}
      </section>
      {busy && <p class="empty" role="status"><span class="spinner" /> explaining {atom}…</p>}
      {!atom && (
        <section class="card pad">
          <p class="hint">The most probable atoms:</p>
          <div class="chips">{names.slice(0, 24).map((name) => <button class="chip" key={name} onClick={() => walk(name)}>{name}</button>)}</div>
        </section>
      )}
      {atom && message && !busy && <section class="card"><p class="note warn" role="status">{message}</p></section>}
      {found && found.atom && (
        <div class={busy ? "stale" : ""}>
          <section class="card verdict" aria-label="Probability">
            <span class="big-number">{found.probability.toFixed(4)}</span>
            <div><h2 class="mono">{found.atom}</h2><p class="faint">{found.exact ? "exact" : "approximate"}, by {found.method}{found.weights_stderr ? `; ± ${found.weights_stderr.toPrecision(2)} because of the weights` : ""}</p></div>
          </section>
          <div class="split even">
            <section class="card" aria-label="In words"><header class="card-head"><h2>In words</h2></header><Words found={found} /></section>
            <section class="card" aria-label="What adds to it">
              <header class="card-head"><h2>What adds to it</h2><span class="grow" /><span class="faint">log-odds in the {found.world?.name ?? "most likely"} world</span></header>
              <Waterfall found={found} />
            </section>
            <section class="card" aria-label="What would change it">
              <header class="card-head"><h2>What would change it</h2></header>
              <Absences found={found} tryFact={(row) => tryFact(row.text, row.becomes)} />
              <Sensitivities found={found} />
            </section>
            <section class="card" aria-label="Neighbourhood">
              <header class="card-head"><h2>Around it</h2></header>
              <Neighbourhood found={found} walk={walk} />
            </section>
          </div>
          {found.notes?.map((note) => <p class="note warn" key={note}>{note}</p>)}
        </div>
      )}
    </div>
  );
}
