import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { editor, redoText, undoText } from "./editor";
import {
  about, addFiles, ask, canRedo, canUndo, check, fail, mistakes, online, openTab, redo, runs, start,
  tab, TABS, toast, undo, workspace, type Tab,
} from "./state";
import { isOver } from "./api";
import { followTheme, theme, toggleTheme } from "./theme";
import { AskTab } from "./tabs/ask";
import { DataTab } from "./tabs/data";
import { GalleryTab } from "./tabs/gallery";
import { LearnTab } from "./tabs/learn";
import { ModelTab } from "./tabs/model";
import { WhyTab } from "./tabs/why";

const LABELS: Record<Tab, string> = {
  model: "Model", data: "Data", ask: "Ask", why: "Why", learn: "Learn", gallery: "Gallery",
};

function App() {
  const [help, setHelp] = useState(false);
  const [over, setOver] = useState(false);
  const active = tab.value;
  const running = runs.value.filter((run) => !isOver(run)).length;
  useEffect(() => void start(), []);
  useEffect(() => editor.view?.requestMeasure(), [active]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing = (event.target as HTMLElement).closest("input, textarea, select, .cm-editor");
      const command = event.ctrlKey || event.metaKey;
      if (event.altKey && /^[1-6]$/.test(event.key)) openTab(TABS[Number(event.key) - 1]);
      else if (command && event.key === "Enter") {
        openTab("ask");
        void ask();
      } else if (command && event.key.toLowerCase() === "z" && !typing) {
        if (event.shiftKey) redo();
        else undo();
      } else if (event.key === "?" && !typing) setHelp(true);
      else if (event.key === "Escape") setHelp(false);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    const drag = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(event.type === "dragover");
      if (event.type === "drop") {
        addFiles(event.dataTransfer.files).then(() => openTab("data")).catch(fail);
      }
    };
    for (const name of ["dragover", "dragleave", "drop"]) addEventListener(name, drag as EventListener);
    return () => {
      for (const name of ["dragover", "dragleave", "drop"]) removeEventListener(name, drag as EventListener);
    };
  }, []);
  const moveTab = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(active) + step + TABS.length) % TABS.length];
    openTab(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  const inEditor = active === "model" && !!editor.view;
  return (
    <>
      <a class="skip" href="#page">Skip to the page</a>
      <header class="top">
        <span class="brand"><img src="./icon.svg" alt="" width="26" height="26" /><b>Lapis</b><span class="folder">{about.value?.folder}</span></span>
        <nav class="tabs" role="tablist" aria-label="Parts of the workbench" onKeyDown={moveTab}>
          {TABS.map((name) => (
            <button key={name} id={`tab-${name}`} role="tab" aria-selected={active === name} aria-controls="page"
              tabIndex={active === name ? 0 : -1} onClick={() => openTab(name)}>
              {LABELS[name]}
              {name === "model" && mistakes.value.length > 0 && <span class="badge bad" aria-label={`${mistakes.value.length} mistakes`}>{mistakes.value.length}</span>}
              {name === "data" && workspace.value.data.length > 0 && <span class="badge">{workspace.value.data.length}</span>}
            </button>
          ))}
        </nav>
        <span class="tools">
          {running > 0 && <span class="running" role="status"><span class="spinner" />{running}<span class="hide-small"> running</span></span>}
          <button class="icon-button" aria-label="Undo" title="Undo (Ctrl+Z)" disabled={!inEditor && !canUndo.value} onClick={() => (inEditor ? undoText() : undo())}>↶</button>
          <button class="icon-button" aria-label="Redo" title="Redo (Ctrl+Shift+Z)" disabled={!inEditor && !canRedo.value} onClick={() => (inEditor ? redoText() : redo())}>↷</button>
          <button class="icon-button" aria-label={theme.value === "dark" ? "Light colours" : "Dark colours"} onClick={toggleTheme}>{theme.value === "dark" ? "☀" : "☾"}</button>
          <button class="icon-button hide-small" aria-label="Keys" title="Keys (?)" onClick={() => setHelp(true)}>?</button>
        </span>
      </header>
      {!online.value && <p class="banner" role="alert">The server does not answer. Start it again with <code>lapis serve</code>; nothing that was saved is lost.</p>}
      <main><div id="page" role="tabpanel" aria-labelledby={`tab-${active}`} tabIndex={-1}>
        <div hidden={active !== "model"}><ModelTab /></div>
        {active === "data" && <DataTab />}
        {active === "ask" && <AskTab />}
        {active === "why" && <WhyTab />}
        {active === "learn" && <LearnTab />}
        {active === "gallery" && <GalleryTab />}
      </div></main>
      {over && <div class="dropping" aria-hidden="true">Drop models and data here</div>}
      {toast.value && <div class={`toast ${toast.value.error ? "bad" : ""}`} role={toast.value.error ? "alert" : "status"}>{toast.value.text}<button class="x" aria-label="Close" onClick={() => (toast.value = null)}>×</button></div>}
      {help && <Keys close={() => setHelp(false)} />}
    </>
  );
}

function Keys({ close }: { close: () => void }) {
  const keys: [string, string][] = [
    ["Ctrl+Enter", "Ask"], ["Alt+1 … Alt+6", "Model, Data, Ask, Why, Learn, Gallery"], ["← →", "Other tab, on the tabs"],
    ["↑ ↓ Page Home End", "Move in the answer"], ["Enter", "Why, on a row of the answer"],
    ["Ctrl+Space", "Complete a name in the editor"], ["Ctrl+Shift+M", "List the mistakes of the editor"],
    ["Ctrl+Z, Ctrl+Shift+Z", "Undo, redo"], ["Esc, then Tab", "Leave the editor"],
  ];
  useEffect(() => document.getElementById("keys-close")?.focus(), []);
  return (
    <div class="shade" onClick={close}>
      <div class="card dialog" role="dialog" aria-modal="true" aria-label="Keys" onClick={(e) => e.stopPropagation()}>
        <header class="card-head"><h2>Keys</h2><span class="grow" /><button id="keys-close" class="x" aria-label="Close" onClick={close}>×</button></header>
        <dl>{keys.map(([key, what]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={what}>{what}</dd>])}</dl>
        <p class="hint pad">Lapis {about.value?.version}. {check.value.summary}</p>
      </div>
    </div>
  );
}

followTheme();
const place = document.getElementById("app")!;
place.replaceChildren();
render(<App />, place);
