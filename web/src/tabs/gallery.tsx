// Worked problems, opened and answered with one click.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import type { GalleryCard } from "../contract";
import { ask, fail, LEARNS, openProblem, openTab, requestOf, startRun, workspace } from "../state";

const ICONS: Record<string, string> = {
  infer: "P", map: "★", learn: "w", structure: "⇒", lift: "∑", "field-infer": "ƒ", "circuit-learn": "⊕",
};
const DOES: Record<string, string> = {
  infer: "probabilities", map: "most likely world", learn: "weights", structure: "rules",
  lift: "lifted counting", "field-infer": "recursive field", "circuit-learn": "learned circuit",
};

export function GalleryTab() {
  const [cards, setCards] = useState<GalleryCard[]>([]);
  const [busy, setBusy] = useState<string | null>(null);
  useEffect(() => void api.gallery().then(setCards).catch(fail), []);
  async function open(card: GalleryCard) {
    setBusy(card.name);
    try {
      await openProblem(card.name);
      if (LEARNS.includes(card.command)) {
        openTab("learn");
        await startRun(requestOf(card.command, workspace.value.options));
      } else {
        openTab("ask");
        await ask();
      }
    } catch (error) {
      fail(error);
    } finally {
      setBusy(null);
    }
  }
  return (
    <div class="column wide">
      <div class="hero">
        <h1>Start from a worked problem</h1>
        <p>Each opens as ordinary files in your folder and is answered at once. Change anything and ask again.</p>
      </div>
      <div class="gallery">
        {cards.map((card) => (
          <article class="card problem" key={card.name}>
            <header>
              <span class="icon" aria-hidden="true">{ICONS[card.command] ?? "P"}</span>
              <div>
                <h2>{card.title}</h2>
                <span class="faint">{DOES[card.command] ?? card.command}</span>
              </div>
            </header>
            <ul>{card.sentences.map((sentence) => <li key={sentence}>{sentence}</li>)}</ul>
            <button class="primary" disabled={busy !== null} onClick={() => void open(card)}
              aria-label={`${busy === card.name ? "Opening…" : "Open and answer"}: ${card.title}`}>
              {busy === card.name ? "Opening…" : "Open and answer"}
            </button>
          </article>
        ))}
      </div>
    </div>
  );
}
