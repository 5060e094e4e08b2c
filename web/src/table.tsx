// A table of any number of rows: only those in view exist; pages are fetched by number.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RowsReply, RowsRequest } from "./contract";

export type Cell = string | number | boolean | null;
export type Fetch = (view: RowsRequest, signal: AbortSignal) => Promise<RowsReply>;

const ROW = 34;
const PAGE = 200;
const TALLEST = 8_000_000; // pixels; browsers limit the height of elements

export const emptyView = (): RowsRequest => ({
  sort: null, descending: false, predicate: null, arguments: {}, text: "", low: null, high: null,
  offset: 0, limit: PAGE,
});

interface Props {
  source: string; // another source, another table
  fetch: Fetch;
  columns: string[];
  predicates: string[];
  view: RowsRequest;
  onView: (view: RowsRequest) => void;
  selected: string | null;
  onSelect: (row: Cell[]) => void;
  onOpen?: (row: Cell[]) => void;
  label: string;
  marked?: (row: Cell[]) => string | null;
  hidden?: string[]; // columns
}

const NUMERIC = ["probability", "stderr", "weight", "expected_count", "lower", "upper"];

export function Table(props: Props) {
  const { fetch, columns, view, onView } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const pages = useRef(new Map<number, Cell[][]>());
  const [total, setTotal] = useState<number | null>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(480);
  const [, redraw] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  const [cursor, setCursor] = useState(0);
  const expected = useRef(0);
  const pending = useRef<AbortController | null>(null);
  const key = JSON.stringify([props.source, view]);

  const rows = total ?? 0;
  const whole = rows * ROW;
  const tall = Math.min(whole, TALLEST);
  const scaled = whole > TALLEST;
  const first = Math.max(0, Math.floor(top / ROW) - 2);
  const last = Math.min(rows, Math.ceil((top + height) / ROW) + 2);

  useEffect(() => {
    pages.current.clear();
    setProblem(null);
    setCursor(0);
    if (scroller.current) scroller.current.scrollTop = 0;
    expected.current = 0;
    setTop(0);
    void load(0, 1);
    return () => pending.current?.abort();
  }, [key]);

  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (total === null) return;
    const from = Math.floor(first / PAGE);
    const to = Math.floor(Math.max(first, last - 1) / PAGE);
    for (let page = from; page <= to; page++) {
      if (!pages.current.has(page)) {
        void load(from, to - from + 1);
        return;
      }
    }
  }, [first, last, total]);

  async function load(page: number, count: number) {
    pending.current?.abort();
    const own = (pending.current = new AbortController());
    try {
      const request = { ...view, offset: page * PAGE, limit: count * PAGE };
      const found = await fetch(request, own.signal);
      if (own.signal.aborted) return;
      setTotal(found.total);
      for (let n = 0; n < count; n++) {
        const part = found.rows.slice(n * PAGE, (n + 1) * PAGE) as Cell[][];
        if (part.length) pages.current.set(page + n, part);
      }
      if (pages.current.size > 60) {
        for (const each of [...pages.current.keys()].slice(0, 30)) {
          if (Math.abs(each - page) > 4) pages.current.delete(each);
        }
      }
      redraw((n) => n + 1);
    } catch (error) {
      if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
    }
  }

  const limit = Math.max(0, whole - height);
  const track = Math.max(1, tall - height);
  function moveTo(next: number) {
    const place = Math.max(0, Math.min(limit, next));
    setTop(place);
    const element = scroller.current!;
    element.scrollTop = scaled ? (place / limit) * track : place;
    expected.current = element.scrollTop;
  }
  function onScroll() {
    const at = scroller.current!.scrollTop;
    if (Math.abs(at - expected.current) < 1) return;
    expected.current = at;
    setTop(scaled ? (at / track) * limit : at);
  }
  useEffect(() => {
    const element = scroller.current!;
    const onWheel = (event: WheelEvent) => {
      if (!scaled || event.ctrlKey) return;
      event.preventDefault();
      moveTo(top + event.deltaY * (event.deltaMode === 1 ? ROW : 1));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  const at = (n: number) => pages.current.get(Math.floor(n / PAGE))?.[n % PAGE];
  function go(next: number) {
    const row = Math.max(0, Math.min(rows - 1, next));
    setCursor(row);
    if (row * ROW < top) moveTo(row * ROW);
    else if ((row + 1) * ROW > top + height) moveTo((row + 1) * ROW - height);
    const found = at(row);
    if (found) props.onSelect(found);
  }
  function onKey(event: KeyboardEvent) {
    const steps: Record<string, number> = {
      ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + Math.floor(height / ROW),
      PageUp: cursor - Math.floor(height / ROW), Home: 0, End: rows - 1,
    };
    if (event.key in steps) {
      event.preventDefault();
      go(steps[event.key]);
    } else if (event.key === "Enter") {
      const row = at(cursor);
      if (row) (props.onOpen ?? props.onSelect)(row);
    }
  }

  const visible = useMemo(
    () => shownColumns(columns).filter((name) => !props.hidden?.includes(name)), [columns]);
  const template = visible
    .map((name) => (name === "atom" || name === "formula" ? "minmax(150px, 2fr)"
      : name === "probability" ? "minmax(130px, 1fr)" : "minmax(80px, 0.6fr)"))
    .join(" ");
  const body = [];
  for (let n = first; n < last; n++) {
    const row = at(n);
    const name = row ? String(row[0]) : "";
    const mark = row && props.marked?.(row);
    body.push(
      <div
        key={n}
        role="row"
        aria-rowindex={n + 2}
        aria-selected={!!row && props.selected === name}
        class={`tr${n === cursor ? " cursor" : ""}${mark ? ` is-${mark}` : ""}`}
        style={{ transform: `translateY(${n * ROW - top}px)`, gridTemplateColumns: template }}
        onClick={() => {
          setCursor(n);
          if (row) props.onSelect(row);
        }}
        onDblClick={() => row && props.onOpen?.(row)}
      >
        {visible.map((column) => (
          <div role="gridcell" class={`td${NUMERIC.includes(column) ? " num" : ""}`} key={column}>
            {row ? cell(column, row[columns.indexOf(column)]) : <span class="ghost" />}
          </div>
        ))}
      </div>,
    );
  }

  function sortBy(column: string) {
    const same = view.sort === column;
    const numeric = NUMERIC.includes(column);
    if (same && view.descending !== numeric) onView({ ...view, sort: null, descending: false });
    else onView({ ...view, sort: column, descending: same ? !view.descending : numeric });
  }

  return (
    <div class="table" role="grid" aria-label={props.label} aria-rowcount={rows + 1}>
      <div class="thead" role="row" style={{ gridTemplateColumns: template }}>
        {visible.map((column) => {
          const sorted = view.sort === column ? (view.descending ? "descending" : "ascending") : "none";
          return (
            <div role="columnheader" aria-sort={sorted} class="th" key={column}>
              <button class="sort" onClick={() => sortBy(column)}>
                {column.replace(/_/g, " ")}
                <span aria-hidden="true">{sorted === "none" ? "" : view.descending ? " ↓" : " ↑"}</span>
              </button>
            </div>
          );
        })}
      </div>
      <div class="tbody" role="rowgroup" ref={scroller} onScroll={onScroll} onKeyDown={onKey} tabIndex={0}
        aria-label={`${props.label}: arrow keys move, Enter explains`}>
        <div class="tall" role="presentation" style={{ height: `${tall}px` }}>
          <div class="window" role="presentation" style={{ height: `${Math.min(height, Math.max(tall, 1))}px` }}>
            {body}
          </div>
        </div>
        {total === 0 && <p class="empty">No row fits the filter.</p>}
        {problem && <p class="empty bad">{problem}</p>}
      </div>
    </div>
  );
}

function shownColumns(columns: string[]): string[] {
  const plain = columns.filter((name) => !/^arg\d+$/.test(name) && name !== "predicate");
  return plain.length ? plain : columns;
}

function cell(column: string, value: Cell) {
  if (value === null) return <span class="faint">–</span>;
  if (column === "probability" && typeof value === "number") {
    return (
      <span class="pbar">
        <span class="pnum">{value.toFixed(4)}</span>
        <span class="ptrack" aria-hidden="true">
          <span style={{ width: `${(100 * value).toFixed(1)}%` }} />
        </span>
      </span>
    );
  }
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString() : value.toPrecision(4);
  if (typeof value === "boolean") return <span class={value ? "yes" : "no"}>{value ? "true" : "false"}</span>;
  return <span title={value}>{value}</span>;
}

// The filter above a table.
export function Filters(props: Pick<Props, "columns" | "predicates" | "view" | "onView">) {
  const { columns, view, onView } = props;
  const arguments_ = columns.filter((name) => /^arg\d+$/.test(name)).slice(0, 4);
  const set = (more: Partial<RowsRequest>) => onView({ ...view, ...more });
  const [text, setText] = useState(view.text);
  useEffect(() => {
    const timer = setTimeout(() => text !== view.text && set({ text }), 150);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="filters">
      <label class="field grow">
        <span class="label">Search</span>
        <input type="search" value={text} placeholder="part of a name"
          onInput={(e) => setText(e.currentTarget.value)} />
      </label>
      {props.predicates.length > 1 && (
        <label class="field">
          <span class="label">Predicate</span>
          <select value={view.predicate ?? ""} onChange={(e) => set({ predicate: e.currentTarget.value || null })}>
            <option value="">all</option>
            {props.predicates.map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
      )}
      {arguments_.map((name, n) => (
        <label class="field narrow" key={name}>
          <span class="label">Argument {n + 1}</span>
          <input value={view.arguments[name] ?? ""} placeholder="any"
            onInput={(e) => set({ arguments: { ...view.arguments, [name]: e.currentTarget.value } })} />
        </label>
      ))}
      {columns.includes("probability") && (
        <label class="field narrow">
          <span class="label">At least</span>
          <input type="number" min="0" max="1" step="0.1" value={view.low ?? ""} placeholder="0"
            onInput={(e) => set({ low: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} />
        </label>
      )}
    </div>
  );
}
