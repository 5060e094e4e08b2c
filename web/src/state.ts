// What the page shows: the workspace, the model's text, the runs. Saved as it changes.
import { batch, computed, signal } from "@preact/signals";
import { api, follow, isOver, Refused } from "./api";
import type {
  AboutReply, CheckReply, DataReply, ErrorReply, FileCard, JobCommand, JobRequest, JobResult,
  JobState, LiveReply, WorkspaceState,
} from "./contract";

export type Tab = "model" | "data" | "ask" | "why" | "learn" | "gallery";
export const TABS: Tab[] = ["model", "data", "ask", "why", "learn", "gallery"];
export const LEARNS: JobCommand[] = ["learn", "structure", "field-learn", "circuit-learn"];

const EMPTY: WorkspaceState = {
  model: null, data: [], query: [], evidence: [], command: "infer", options: {}, truth: null,
  gallery: null,
};
const NOTHING: CheckReply = {
  marks: [], formulas: [], predicates: [], types: [], functions: [], summary: "",
  is_network: false,
};

export const about = signal<AboutReply | null>(null);
export const tab = signal<Tab>(tabOfAddress());
export const workspace = signal<WorkspaceState>(EMPTY);
export const text = signal("");
export const saved = signal(true);
export const check = signal<CheckReply>(NOTHING);
export const files = signal<FileCard[]>([]);
export const data = signal<DataReply | null>(null);
export const runs = signal<JobState[]>([]);
export const shown = signal<string | null>(null); // the run whose answer is shown
export const results = signal<Record<string, JobResult>>({});
export const whyAtom = signal<string | null>(null);
export const toast = signal<{ text: string; error: boolean } | null>(null);
export const live = signal<LiveReply | null>(null);
export const baseline = signal<LiveReply | null>(null);
export const weights = signal<Record<number, number>>({}); // of sliders that are moved
export const online = signal(true);

export const kind = computed(() => kindOf(workspace.value.model));
export const mistakes = computed(() => check.value.marks.filter((m) => m.severity === "error"));
export const current = computed(() => runs.value.find((run) => run.id === shown.value) ?? null);
export const asks = computed(() => runs.value.filter((run) => !LEARNS.includes(run.command)));
export const lessons = computed(() => runs.value.filter((run) => LEARNS.includes(run.command)));

export function kindOf(path: string | null): "model" | "network" | "field" | "table" | "none" {
  if (!path) return "none";
  if (/\.mln$/i.test(path)) return "model";
  if (/\.rrf$/i.test(path)) return "field";
  if (/\.(bif|uai|tbn|pl|problog)(\.gz)?$/i.test(path)) return "network";
  return "table";
}
export const isText = (path: string | null) => !!path && /\.(mln|rrf|bif|pl|problog)$/i.test(path);

function tabOfAddress(): Tab {
  const name = location.hash.slice(1) as Tab;
  return TABS.includes(name) ? name : "ask";
}

export function openTab(name: Tab): void {
  tab.value = name;
  if (location.hash.slice(1) !== name) history.pushState(null, "", `#${name}`);
}
addEventListener("popstate", () => (tab.value = tabOfAddress()));

export function fail(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const reply = error instanceof Refused ? error.reply : null;
  say(reply ? [reply.message, reply.hint].filter(Boolean).join(" — ") : String(error), true);
}

let toastTimer = 0;
export function say(message: string, error = false): void {
  toast.value = { text: message, error };
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.value = null), error ? 9000 : 4000);
}

// Undo of everything but the text, which the editor undoes.

const past: WorkspaceState[] = [];
const future: WorkspaceState[] = [];
export const canUndo = signal(false);
export const canRedo = signal(false);

export function change(more: Partial<WorkspaceState>): void {
  past.push(workspace.value);
  future.length = 0;
  setWorkspace({ ...workspace.value, ...more });
}
function setWorkspace(next: WorkspaceState): void {
  workspace.value = next;
  canUndo.value = past.length > 0;
  canRedo.value = future.length > 0;
  clearTimeout(saveTimer);
  saveTimer = window.setTimeout(() => api.saveWorkspace(workspace.value).catch(fail), 300);
}
let saveTimer = 0;

export function undo(): void {
  const before = past.pop();
  if (!before) return;
  future.push(workspace.value);
  moveTo(before);
}
export function redo(): void {
  const next = future.pop();
  if (!next) return;
  past.push(workspace.value);
  moveTo(next);
}
function moveTo(next: WorkspaceState): void {
  const other = next.model !== workspace.value.model;
  setWorkspace(next);
  if (other) void openModel(next.model);
}

// Start.

export async function start(): Promise<void> {
  try {
    about.value = await api.about();
    workspace.value = { ...EMPTY, ...about.value.workspace };
    await Promise.all([refreshFiles(), refreshRuns(), openModel(workspace.value.model)]);
    if (!workspace.value.model && !location.hash) openTab("gallery");
  } catch (error) {
    fail(error);
  }
}

export async function refreshFiles(): Promise<void> {
  files.value = (await api.files()).files;
}

export async function refreshRuns(): Promise<void> {
  runs.value = await api.jobs();
  for (const run of runs.value) if (!isOver(run)) watch(run.id);
  if (!shown.value && asks.value.length) await show(asks.value[0].id).catch(fail);
}

// The model.

export async function openModel(path: string | null): Promise<void> {
  live.value = baseline.value = null;
  weights.value = {};
  text.value = path && isText(path) ? await api.text(path) : "";
  saved.value = true;
  await recheck();
}

let checking: AbortController | null = null;
export async function recheck(): Promise<void> {
  const { model } = workspace.value;
  if (!model || kind.value === "table" || kind.value === "field") {
    check.value = NOTHING;
    return;
  }
  checking?.abort();
  checking = new AbortController();
  const asked = text.value;
  try {
    const request = { text: asked, path: model, data: factFiles() };
    const found = await api.check(request, checking.signal);
    online.value = true;
    if (asked === text.value) {
      // A text with mistakes keeps the words of the last one without.
      const broken = found.marks.some((mark) => mark.severity === "error");
      check.value = broken && check.value.formulas.length && !found.formulas.length
        ? { ...check.value, marks: found.marks, summary: found.summary }
        : found;
    }
  } catch (error) {
    if (error instanceof Refused && error.status === 0) online.value = false;
    fail(error);
  }
}
const factFiles = () => workspace.value.data.filter((path) => !/\.(evid|nt|tsv)$/i.test(path));

let typing = 0;
let writing = 0;
export function setText(next: string): void {
  if (next === text.value) return;
  text.value = next;
  saved.value = false;
  clearTimeout(typing);
  typing = window.setTimeout(() => void recheck(), 150);
  clearTimeout(writing);
  writing = window.setTimeout(() => void saveModel().catch(fail), 600);
}

export async function saveModel(): Promise<void> {
  clearTimeout(writing);
  const { model } = workspace.value;
  if (!model || !isText(model) || saved.value) return;
  const content = text.value;
  await api.save(model, content);
  if (content === text.value) saved.value = true;
}

export async function chooseModel(path: string): Promise<void> {
  await saveModel();
  change({ model: path, gallery: null });
  await openModel(path);
}

export async function newModel(): Promise<void> {
  const taken = new Set(files.value.map((file) => file.path));
  let name = "model.mln";
  for (let n = 2; taken.has(name); n++) name = `model-${n}.mln`;
  await api.save(name, "// Declare predicates, then weighted formulas.\n\nSmokes(person)\n\n0.5 Smokes(x)\n");
  await refreshFiles();
  await chooseModel(name);
}

// Data.

export async function refreshData(): Promise<void> {
  const { data: paths, model } = workspace.value;
  const declared = kind.value === "model" ? model : null;
  data.value = paths.length ? await api.data({ data: paths, model: declared }) : null;
}

export async function addFiles(list: Iterable<File>): Promise<void> {
  const added: string[] = [];
  let model: string | null = null;
  for (const file of list) {
    const name = file.name.replace(/[^\p{L}\p{N}._ -]/gu, "_").replace(/^\.+/, "");
    await api.save(name, file);
    if (["model", "field", "network"].includes(nameKind(name))) model = name;
    else added.push(name);
  }
  await refreshFiles();
  const known = workspace.value.data;
  if (added.length) change({ data: [...known, ...added.filter((path) => !known.includes(path))] });
  if (model) await chooseModel(model);
  await Promise.all([refreshData(), recheck()]).catch(fail);
  say(`${added.length + (model ? 1 : 0)} file(s) added`);
}
const nameKind = (name: string) => ({ model: "model", network: "network", field: "field" })[
  kindOf(name) as "model"
] ?? "data";

export async function setData(paths: string[]): Promise<void> {
  change({ data: paths });
  await Promise.all([refreshData(), recheck()]).catch(fail);
}

// Runs.

const watched = new Set<string>();
function watch(id: string): void {
  if (watched.has(id)) return;
  watched.add(id);
  follow(id, (state) => {
    const known = runs.value.some((run) => run.id === id);
    runs.value = known ? runs.value.map((run) => (run.id === id ? state : run)) : [state, ...runs.value];
    if (isOver(state)) {
      watched.delete(id);
      void loadResult(state).catch(fail);
    }
  });
}

export async function loadResult(state: JobState): Promise<void> {
  if (results.value[state.id] || state.summary === null) return;
  const found = await api.result(state.id);
  results.value = { ...results.value, [state.id]: found };
}

export async function show(id: string): Promise<void> {
  shown.value = id;
  const state = runs.value.find((run) => run.id === id);
  if (state && isOver(state)) await loadResult(state);
}

export function requestOf(command: JobCommand, options: Record<string, unknown>): JobRequest {
  const { model, data } = workspace.value;
  const used = command === "circuit-learn" ? [] : data;
  return { command, model: model ?? "", data: used, options, title: titleOf(command) };
}
function titleOf(command: JobCommand): string {
  const { query, evidence } = workspace.value;
  const what = LEARNS.includes(command) ? command : query.join(", ") || command;
  return evidence.length && !LEARNS.includes(command) ? `${what} | ${evidence.join(", ")}` : what;
}

export async function startRun(request: JobRequest): Promise<JobState> {
  await saveModel();
  const state = await api.start(request);
  batch(() => {
    runs.value = [state, ...runs.value];
    if (!LEARNS.includes(request.command)) shown.value = state.id;
  });
  watch(state.id);
  return state;
}

export async function ask(): Promise<void> {
  try {
    const { command, query, evidence, options } = workspace.value;
    const asked: Record<string, unknown> = { ...options };
    if (command !== "count") asked.query = query;
    if ((command === "infer" || command === "map") && evidence.length) asked.evidence = evidence;
    await startRun(requestOf(command, asked));
  } catch (error) {
    fail(error);
  }
}

export async function forget(id: string): Promise<void> {
  await api.forget(id);
  runs.value = runs.value.filter((run) => run.id !== id);
  if (shown.value === id) shown.value = asks.value[0]?.id ?? null;
}

// Evidence by click: an atom is true, false, unknown, or what the data says.

export const bare = (fact: string) => fact.replace(/^[!?]/, "");
export function observe(atom: string, value: "true" | "false" | "unknown" | null): void {
  const others = workspace.value.evidence.filter((fact) => bare(fact) !== atom);
  const sign = { true: "", false: "!", unknown: "?" };
  change({ evidence: value ? [...others, sign[value] + atom] : others });
}
export function observed(atom: string): "true" | "false" | "unknown" | null {
  const fact = workspace.value.evidence.find((each) => bare(each) === atom);
  if (fact === undefined) return null;
  return fact.startsWith("!") ? "false" : fact.startsWith("?") ? "unknown" : "true";
}

// Answers at once, for sliders.

let asking: AbortController | null = null;
let waiting = false;
export async function askLive(asBaseline = false): Promise<void> {
  const { model, query, evidence } = workspace.value;
  if (!model || !["model", "network"].includes(kind.value) || mistakes.value.length || !query.length) {
    live.value = null;
    return;
  }
  if (asking) {
    waiting = true;
    return;
  }
  asking = new AbortController();
  try {
    const request = {
      text: text.value, path: model, data: factFiles(), query, evidence,
      weights: asBaseline ? {} : Object.fromEntries(Object.entries(weights.value)), limit: 40,
    };
    const found = await api.live(request, asking.signal);
    live.value = found;
    if (asBaseline || !baseline.value) baseline.value = found;
    liveError.value = null;
  } catch (error) {
    liveError.value = error instanceof Refused ? error.reply : null;
    live.value = null;
  } finally {
    asking = null;
    if (waiting) {
      waiting = false;
      void askLive(asBaseline);
    }
  }
}
export const liveError = signal<ErrorReply | null>(null);

export async function openProblem(name: string): Promise<void> {
  const found = await api.openGallery(name);
  await saveModel();
  change(found);
  shown.value = null;
  await Promise.all([refreshFiles(), openModel(found.model)]);
  void refreshData().catch(fail);
}
