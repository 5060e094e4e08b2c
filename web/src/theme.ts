// Dark or light: the user's choice, else that of the system.
import { effect, signal } from "@preact/signals";

const kept = () => {
  try {
    return localStorage.getItem("lapis-theme");
  } catch {
    return null;
  }
};
export const theme = signal<"light" | "dark">(
  (kept() as "light" | "dark" | null) ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"),
);
export function followTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}
export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem("lapis-theme", theme.value);
}
