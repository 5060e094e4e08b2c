// Requests to the server, typed by the contract.
import type {
  AboutReply, CheckReply, CheckRequest, ColumnsReply, DataReply, DataRequest, Done, ErrorReply,
  FiguresReply, FiguresRequest, FilesReply, GalleryCard, JobRequest, JobResult, JobState,
  LiveReply, LiveRequest, MapColumnsRequest, PlanRequest, RenameRequest, RowsReply, RowsRequest,
  SavedReply, WhyReply, WorkspaceState,
} from "./contract";

export class Refused extends Error {
  constructor(readonly reply: ErrorReply, readonly status: number) {
    super(reply.message);
  }
}

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const reply = await fetch(path, {
    method,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refused(plain("offline", "the server does not answer"), 0);
  });
  const found = await reply.json().catch(() => plain("reply", `reply ${reply.status}`));
  if (!reply.ok) throw new Refused(found, reply.status);
  return found as T;
}

const plain = (code: string, message: string): ErrorReply => ({
  code, message, hint: null, text: message, marks: [],
});
const place = (path: string) => path.split("/").map(encodeURIComponent).join("/");

export const api = {
  about: () => ask<AboutReply>("GET", "/api/about"),
  saveWorkspace: (state: WorkspaceState) => ask<Done>("PUT", "/api/workspace", state),
  check: (request: CheckRequest, signal?: AbortSignal) =>
    ask<CheckReply>("POST", "/api/check", request, signal),
  data: (request: DataRequest) => ask<DataReply>("POST", "/api/data", request),
  columns: (path: string) => ask<ColumnsReply>("POST", "/api/data/columns", { path }),
  mapColumns: (request: MapColumnsRequest) => ask<SavedReply>("POST", "/api/data/map", request),
  rename: (request: RenameRequest) => ask<SavedReply>("POST", "/api/data/rename", request),
  live: (request: LiveRequest, signal?: AbortSignal) =>
    ask<LiveReply>("POST", "/api/live", request, signal),
  plan: (request: PlanRequest) => ask<any>("POST", "/api/plan", request),
  start: (request: JobRequest) => ask<JobState>("POST", "/api/jobs", request),
  jobs: () => ask<JobState[]>("GET", "/api/jobs"),
  stop: (id: string, now: boolean) => ask<JobState>("POST", `/api/jobs/${id}/stop`, { now }),
  forget: (id: string) => ask<Done>("DELETE", `/api/jobs/${id}`),
  result: (id: string) => ask<JobResult>("GET", `/api/jobs/${id}/result`),
  rows: (id: string, view: RowsRequest, signal?: AbortSignal) =>
    ask<RowsReply>("POST", `/api/jobs/${id}/rows`, view, signal),
  figures: (id: string, request: FiguresRequest) =>
    ask<FiguresReply>("POST", `/api/jobs/${id}/figures`, request),
  why: (id: string, atom: string) => ask<WhyReply>("POST", `/api/jobs/${id}/why`, { atom }),
  files: () => ask<FilesReply>("GET", "/api/files"),
  text: async (path: string) => {
    const reply = await fetch(`/api/files/${place(path)}`);
    if (!reply.ok) throw new Refused(await reply.json(), reply.status);
    return reply.text();
  },
  save: async (path: string, content: Blob | string) => {
    const reply = await fetch(`/api/files/${place(path)}`, { method: "PUT", body: content });
    const found = await reply.json().catch(() => plain("reply", `reply ${reply.status}`));
    if (!reply.ok) throw new Refused(found, reply.status);
    return found as SavedReply;
  },
  gallery: () => ask<GalleryCard[]>("GET", "/api/gallery"),
  openGallery: (name: string) => ask<WorkspaceState>("POST", `/api/gallery/${name}`),
  exportAddress: (id: string, format: string) => `/api/jobs/${id}/export?format=${format}`,
  drawingAddress: (id: string) => `/api/jobs/${id}/drawing`,
};

// Follow the states of a run until it ends.
export function follow(id: string, tell: (state: JobState) => void): () => void {
  const source = new EventSource(`/api/jobs/${id}/events`);
  source.onmessage = (event) => {
    const state: JobState = JSON.parse(event.data);
    if (isOver(state)) source.close();
    tell(state);
  };
  return () => source.close();
}

export const isOver = (state: JobState) => ["done", "stopped", "failed"].includes(state.status);
