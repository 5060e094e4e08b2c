// Notebooks: an answer or an explanation as a widget; rows come from the kernel.
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import css from "./style.css?inline";
import type { JobResult, RowsReply, RowsRequest } from "./contract";
import { Absences, Neighbourhood, Sensitivities, Waterfall, Words, type Explained } from "./explanation";
import { emptyView, Filters, Table, type Cell } from "./table";

interface Kernel {
  get(name: string): any;
  send(message: unknown): void;
  on(name: string, tell: (message: any) => void): void;
  off(name: string, tell: (message: any) => void): void;
}

let number = 0;
function request<T>(kernel: Kernel, given: object, signal?: AbortSignal): Promise<T> {
  const id = ++number;
  return new Promise((resolve, reject) => {
    const tell = (message: any) => {
      if (message.id !== id) return;
      kernel.off("msg:custom", tell);
      if (message.error) reject(new Error(message.error));
      else resolve(message.ok);
    };
    signal?.addEventListener("abort", () => {
      kernel.off("msg:custom", tell);
      reject(new DOMException("", "AbortError"));
    });
    kernel.on("msg:custom", tell);
    kernel.send({ id, ...given });
  });
}

function AnswerWidget({ kernel, about }: { kernel: Kernel; about: Pick<JobResult, "summary" | "columns" | "predicates" | "remarks"> }) {
  const hasP = about.columns.includes("probability");
  const [view, setView] = useState<RowsRequest>({ ...emptyView(), sort: hasP ? "probability" : null, descending: hasP });
  const [row, setRow] = useState<Cell[] | null>(null);
  const [found, setFound] = useState<Explained | null>(null);
  const [message, setMessage] = useState<string | null>(null);
  const fetch = useMemo(() => (wanted: RowsRequest, signal: AbortSignal) =>
    request<RowsReply>(kernel, { do: "rows", view: wanted }, signal), [kernel]);
  const explain = (atom: string) => {
    setMessage(null);
    request<Explained>(kernel, { do: "why", atom }).then(setFound).catch((error) => setMessage(error.message));
  };
  return (
    <div class="column">
      <section class="card" aria-label="Answer">
        <header class="card-head wrap"><h2>{about.summary}</h2></header>
        {about.remarks.map((remark) => <p class="note warn" key={remark}>{remark}</p>)}
        <Filters columns={about.columns} predicates={about.predicates} view={view} onView={setView} />
        <Table source="kernel" fetch={fetch} columns={about.columns} predicates={about.predicates} view={view} onView={setView}
          selected={row ? String(row[0]) : null} onSelect={setRow} onOpen={hasP ? (each) => explain(String(each[0])) : undefined} label="Answer" />
        {row && hasP && (
          <footer class="selection"><b>{String(row[0])}</b><span class="grow" /><button class="primary" onClick={() => explain(String(row[0]))}>Why?</button></footer>
        )}
        {message && <p class="note warn" role="status">{message}</p>}
      </section>
      {found && <ExplanationView found={found} walk={explain} />}
    </div>
  );
}

function ExplanationView({ found, walk }: { found: Explained; walk: (atom: string) => void }) {
  return (
    <div class="column">
      <section class="card verdict"><span class="big-number">{found.probability.toFixed(4)}</span><h2 class="mono">{found.atom}</h2></section>
      <section class="card"><header class="card-head"><h2>In words</h2></header><Words found={found} /></section>
      <section class="card"><header class="card-head"><h2>What adds to it</h2></header><Waterfall found={found} /></section>
      <section class="card"><header class="card-head"><h2>What would change it</h2></header><Absences found={found} /><Sensitivities found={found} /></section>
      <section class="card"><header class="card-head"><h2>Around it</h2></header><Neighbourhood found={found} walk={walk} /></section>
    </div>
  );
}

// Styles stay inside the widget: the page of the notebook has its own.
const sheet = css.replace(/:root\[data-theme="?dark"?\]/g, ':host([data-theme="dark"])').replace(/:root\b/g, ":host").replace(/(^|[}\s,])(html|body)(?=[\s{,])/g, "$1.lapis-root");

function isDark(): boolean {
  const jupyter = document.body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false";
  return document.body.classList.contains("vscode-dark") || matchMedia("(prefers-color-scheme: dark)").matches;
}

function show({ model, el }: { model: Kernel; el: HTMLElement }) {
  const host = document.createElement("div");
  host.dataset.theme = isDark() ? "dark" : "light";
  const shadow = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = `${sheet}\n.lapis-root { min-height: 0; background: transparent; font-size: 14px; }`;
  const root = document.createElement("div");
  root.className = "lapis-root";
  shadow.append(style, root);
  el.append(host);
  const about = model.get("about");
  const walk = (atom: string) => {
    request<Explained>(model, { do: "why", atom })
      .then((next) => render(<ExplanationView found={next} walk={walk} />, root))
      .catch(() => undefined);
  };
  render(
    about.kind === "answer" ? <AnswerWidget kernel={model} about={about} /> : <ExplanationView found={about.explanation} walk={walk} />,
    root,
  );
  return () => render(null, root);
}

export default { render: show };
