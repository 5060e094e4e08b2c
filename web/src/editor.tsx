// The editor of models: colours, completion, underlined mistakes.
import { autocompletion, completionKeymap, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, redo, undo } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, RangeSetBuilder } from "@codemirror/state";
import {
  Decoration, drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, ViewPlugin,
  type DecorationSet, type ViewUpdate,
} from "@codemirror/view";
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CheckReply } from "./contract";
import { check, setText, text, workspace } from "./state";
import { colours } from "./tokens";

const MAX_COLOURED = 400_000; // characters
const marks = new Map<string, Decoration>();
const markOf = (style: string) => {
  if (!marks.has(style)) marks.set(style, Decoration.mark({ class: `tok-${style}` }));
  return marks.get(style)!;
};

export function colourPlugin(declared: () => ReadonlySet<string>) {
  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      constructor(view: EditorView) {
        this.decorations = decorate(view, declared());
      }
      update(update: ViewUpdate) {
        if (update.docChanged || update.viewportChanged) {
          this.decorations = decorate(update.view, declared());
        }
      }
    },
    { decorations: (plugin) => plugin.decorations },
  );
}

function decorate(view: EditorView, declared: ReadonlySet<string>): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  if (view.state.doc.length > MAX_COLOURED) return builder.finish();
  const { from, to } = view.viewport;
  for (const { start, end, style } of colours(view.state.doc.toString(), declared)) {
    if (end >= from && start <= to && end > start) builder.add(start, end, markOf(style));
  }
  return builder.finish();
}

function complete(context: CompletionContext) {
  const word = context.matchBefore(/[\p{L}\p{N}_]+/u);
  if (!word && !context.explicit) return null;
  const found: CheckReply = check.value;
  const options = [
    ...found.predicates.map((p) => ({
      label: p.name,
      type: p.function ? "function" : "class",
      detail: p.types.length ? `(${p.types.join(", ")})` : "",
      apply: p.types.length ? `${p.name}(` : p.name,
    })),
    ...found.types.flatMap((type) => [
      { label: type.name, type: "type", detail: `type, ${type.size} constants` },
      ...type.constants.map((name) => ({ label: name, type: "constant", detail: type.name })),
    ]),
    ...["EXIST", "FORALL"].map((label) => ({ label, type: "keyword", detail: "quantifier" })),
  ];
  return { from: word ? word.from : context.pos, options, validFor: /^[\p{L}\p{N}_]*$/u };
}

export const look = EditorView.theme({
  "&": { height: "100%", fontSize: "14px", backgroundColor: "transparent" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.65" },
  ".cm-content": { padding: "12px 0", caretColor: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-gutters": { backgroundColor: "transparent", border: "none", color: "var(--faint)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line-active)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection) !important",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)", color: "var(--ink)", border: "1px solid var(--line)",
    borderRadius: "8px", boxShadow: "var(--shadow)", overflow: "hidden",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)", color: "var(--on-accent)",
  },
  ".cm-completionDetail": { opacity: "0.75", fontStyle: "normal", marginLeft: "12px" },
  ".cm-diagnostic": { padding: "6px 10px", maxWidth: "60ch", whiteSpace: "pre-wrap" },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "5px",
    padding: "2px 8px", marginLeft: "8px",
  },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--ink)", borderColor: "var(--line)" },
});

export const editor: { view: EditorView | null } = { view: null };
const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";

function diagnostics(found: CheckReply, length: number): Diagnostic[] {
  return found.marks.map((mark) => {
    const from = Math.min(mark.start, length);
    const to = Math.min(Math.max(mark.end, from + 1), length);
    return {
      from,
      to: Math.max(from, to),
      severity: mark.severity,
      message: mark.hint ? `${mark.message}\n${mark.hint}` : mark.message,
      actions: mark.fix
        ? [{
            name: `Replace by ${mark.fix}`,
            apply: (view: EditorView, start: number, end: number) =>
              view.dispatch({ changes: { from: start, to: end, insert: mark.fix! } }),
          }]
        : [],
    };
  });
}

export function replaceText(from: number, to: number, insert: string): void {
  editor.view?.dispatch({ changes: { from, to, insert }, userEvent: "input" });
}
export function appendText(lines: string): void {
  const view = editor.view;
  if (!view) return;
  const end = view.state.doc.length;
  const gap = view.state.doc.toString().endsWith("\n") ? "" : "\n";
  view.dispatch({ changes: { from: end, insert: `${gap}${lines}\n` }, scrollIntoView: true });
}
export const undoText = () => editor.view && undo(editor.view);
export const redoText = () => editor.view && redo(editor.view);

export function goTo(place: number): void {
  editor.view?.dispatch({ selection: { anchor: place }, scrollIntoView: true });
  editor.view?.focus();
}

export function Editor() {
  const parent = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const declared = () => new Set(check.value.predicates.map((predicate) => predicate.name));
    const view = new EditorView({ parent: parent.current!, state: freshState() });
    editor.view = view;

    function freshState() {
      return EditorState.create({
        doc: text.peek(),
        extensions: [
          lineNumbers(), history(), drawSelection(), bracketMatching(), highlightActiveLine(),
          highlightSelectionMatches(), lintGutter(), colourPlugin(declared), look,
          EditorView.cspNonce.of(nonce),
          autocompletion({ override: [complete], icons: false }),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Model text" }),
          keymap.of([
            ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap,
            ...defaultKeymap, indentWithTab,
          ]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) setText(update.state.doc.toString());
          }),
        ],
      });
    }

    let path = workspace.peek().model;
    const stops = [
      effect(() => {
        const next = text.value;
        const model = workspace.value.model;
        if (next === view.state.doc.toString()) return;
        if (model !== path) view.setState(freshState()); // another file has its own history
        else view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
        path = model;
      }),
      effect(() => {
        const found = check.value;
        view.dispatch(setDiagnostics(view.state, diagnostics(found, view.state.doc.length)));
      }),
    ];
    return () => {
      stops.forEach((stop) => stop());
      view.destroy();
      editor.view = null;
    };
  }, []);
  return <div class="editor" ref={parent} />;
}
