// Data: files, predicates with counts and first rows, columns mapped to arguments.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import type { ColumnsReply, DataFile, TableSummary } from "../contract";
import {
  addFiles, data, fail, files, observe, observed, recheck, refreshData, refreshFiles, say, setData,
  workspace,
} from "../state";

const MAPPED = /\.(csv|tsv|nt|parquet)(\.gz)?$/i;

export function DataTab() {
  const [mapping, setMapping] = useState<string | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const used = workspace.value.data;
  const key = JSON.stringify([used, workspace.value.model]);
  useEffect(() => void refreshData().catch(fail), [key]);
  const rest = files.value.filter((file) => file.kind === "data" && !used.includes(file.path));
  return (
    <div class="column wide">
      <section class="card drop" aria-label="Data files">
        <header class="card-head">
          <h2>Data</h2>
          <span class="grow" />
          {data.value && (
            <span class="faint">
              {data.value.facts.toLocaleString()} facts, {data.value.constants.toLocaleString()} constants
            </span>
          )}
        </header>
        <div class="row wrap pad">
          {used.map((path) => (
            <span class="file" key={path}>
              {path}
              {MAPPED.test(path) && (
                <button class="small quiet" onClick={() => setMapping(path)}>Map columns</button>
              )}
              <button class="x" aria-label={`Remove ${path} from the data`}
                onClick={() => void setData(used.filter((each) => each !== path))}>×</button>
            </span>
          ))}
          <button class="primary" onClick={() => picker.current!.click()}>Add files…</button>
          <input ref={picker} type="file" multiple hidden aria-label="Files to add"
            onChange={(e) => e.currentTarget.files && addFiles(e.currentTarget.files).catch(fail)} />
          {rest.length > 0 && (
            <select aria-label="Add a file of the folder" value=""
              onChange={(e) => e.currentTarget.value && void setData([...used, e.currentTarget.value])}>
              <option value="">From the folder…</option>
              {rest.map((file) => <option key={file.path}>{file.path}</option>)}
            </select>
          )}
        </div>
        <p class="hint pad">Drop .db, CSV, Parquet or triples (.nt, .tsv) anywhere on the page. Facts of all files are one world.</p>
      </section>
      {mapping && <Mapping path={mapping} close={() => setMapping(null)} />}
      {data.value?.files.map((file) => <FileView key={file.path} file={file} map={() => setMapping(file.path)} />)}
      {!used.length && <p class="empty">No data yet. A model without data is asked about the constants that it names.</p>}
    </div>
  );
}

function FileView({ file, map }: { file: DataFile; map: () => void }) {
  async function rename(name: string, proposal: string) {
    try {
      await api.rename({ path: file.path, name, proposal });
      say(`${name} is ${proposal} now`);
      await Promise.all([refreshData(), recheck()]);
    } catch (error) {
      fail(error);
    }
  }
  return (
    <section class="card" aria-label={file.path}>
      <header class="card-head"><h2>{file.path}</h2></header>
      {file.error && (
        <div class="note bad">
          <pre>{file.error.text}</pre>
          {MAPPED.test(file.path) && <button onClick={map}>Map columns</button>}
        </div>
      )}
      {file.notes.map((note, n) => (
        <p class="note warn" key={n}>
          <span>{note.message}{note.hint ? ` — ${note.hint}` : ""}</span>
          {note.name && note.proposal && file.path.endsWith(".db") && (
            <button class="small" onClick={() => void rename(note.name!, note.proposal!)}>
              Replace {note.name} by {note.proposal}
            </button>
          )}
        </p>
      ))}
      <div class="tables">
        {file.tables.map((table) => <TableView key={table.predicate} table={table}
          wrong={file.notes.some((note) => note.name === table.predicate)} />)}
      </div>
    </section>
  );
}

function TableView({ table, wrong }: { table: TableSummary; wrong: boolean }) {
  const name = (row: string[]) => `${table.predicate}${row.length ? `(${row.map(quote).join(", ")})` : ""}`;
  return (
    <article class="relation">
      <h3>
        <span class={wrong ? "typo" : ""}>{table.predicate}</span>
        {table.types.length > 0 && <small>({table.types.join(", ")})</small>}
      </h3>
      <p class="meta">
        <span>{table.true.toLocaleString()} true</span>
        {table.false > 0 && <span>{table.false.toLocaleString()} false</span>}
        {table.unknown > 0 && <span>{table.unknown.toLocaleString()} unknown</span>}
        {table.density !== null && <span>density {table.density.toPrecision(2)}</span>}
      </p>
      {table.density !== null && (
        <span class="ptrack thin" aria-hidden="true"><span style={{ width: `${Math.min(100, 100 * table.density)}%` }} /></span>
      )}
      <ul class="facts">
        {table.rows.map((row, n) => {
          const fact = name(row);
          const state = observed(fact);
          return (
            <li key={n} class={state ? `is-${state}` : ""}>
              <span>{row.join(", ") || "true"}</span>
              <button class="small quiet" aria-pressed={state === "false"}
                title={`What if ${fact} were false?`} onClick={() => observe(fact, state === "false" ? null : "false")}>false</button>
              <button class="small quiet" aria-pressed={state === "unknown"}
                title={`What if ${fact} were unknown?`} onClick={() => observe(fact, state === "unknown" ? null : "unknown")}>unknown</button>
            </li>
          );
        })}
      </ul>
    </article>
  );
}

export const quote = (constant: string) =>
  /^[\p{L}\p{N}_]+'*$/u.test(constant) ? constant : JSON.stringify(constant);

function Mapping({ path, close }: { path: string; close: () => void }) {
  const [found, setFound] = useState<ColumnsReply | null>(null);
  const [triples, setTriples] = useState(/\.(nt|tsv)$/i.test(path));
  const stem = path.split("/").pop()!.replace(/\..*$/, "");
  const [predicate, setPredicate] = useState(stem.replace(/\W+/g, "_").replace(/^./, (c) => c.toUpperCase()));
  const [chosen, setChosen] = useState<string[]>([]);
  useEffect(() => {
    api.columns(path).then((reply) => {
      setFound(reply);
      setChosen(reply.columns.slice(0, 3));
    }).catch((error) => {
      fail(error);
      close();
    });
  }, [path]);
  async function write() {
    const target = path.replace(/\.[^/]*$/, "") + "-facts.db";
    try {
      const kind = triples ? ("triples" as const) : ("table" as const);
      await api.mapColumns({ path, kind, predicate, columns: chosen, target });
      await refreshFiles();
      await setData([...workspace.value.data.filter((each) => each !== path && each !== target), target]);
      say(`facts written to ${target}`);
      close();
    } catch (error) {
      fail(error);
    }
  }
  if (!found) return <p class="empty"><span class="spinner" /> reading {path}…</p>;
  const toggle = (name: string) =>
    setChosen(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
  return (
    <section class="card mapping" aria-label={`Columns of ${path}`}>
      <header class="card-head">
        <h2>Columns of {path}</h2>
        <span class="faint">{found.num_rows.toLocaleString()} rows</span>
        <span class="grow" />
        <button class="x" aria-label="Close" onClick={close}>×</button>
      </header>
      <div class="row wrap pad">
        <label class="field"><span class="label">Rows are</span>
          <select value={triples ? "t" : "f"} onChange={(e) => setTriples(e.currentTarget.value === "t")}>
            <option value="f">facts of one predicate</option>
            <option value="t">triples: subject, relation, object</option>
          </select>
        </label>
        {!triples && (
          <label class="field"><span class="label">Predicate</span>
            <input value={predicate} onInput={(e) => setPredicate(e.currentTarget.value)} />
          </label>
        )}
        <span class="mono preview">
          {triples ? `${chosen[1] ?? "relation"}(${chosen[0] ?? "subject"}, ${chosen[2] ?? "object"})` : `${predicate}(${chosen.join(", ")})`}
        </span>
      </div>
      <div class="scroll-x">
        <table class="plain">
          <thead><tr>{found.columns.map((name) => (
            <th key={name}>
              <button class={`chip ${chosen.includes(name) ? "on" : ""}`} aria-pressed={chosen.includes(name)}
                onClick={() => toggle(name)}>{chosen.includes(name) ? `${chosen.indexOf(name) + 1} · ` : ""}{name}</button>
            </th>
          ))}</tr></thead>
          <tbody>{found.rows.map((row, n) => <tr key={n}>{row.map((value, m) => <td key={m}>{value}</td>)}</tr>)}</tbody>
        </table>
      </div>
      <div class="row pad">
        <button class="primary" disabled={triples ? chosen.length !== 3 : !chosen.length} onClick={() => void write()}>
          Write facts
        </button>
        <span class="hint">Columns are numbered in the order of the arguments. Click to add or remove one.</span>
      </div>
    </section>
  );
}
