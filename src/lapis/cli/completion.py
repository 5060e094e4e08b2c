"""Scripts that complete commands, options and their values in bash, zsh and fish.

    source <(lapis completion bash)                     in ~/.bashrc
    source <(lapis completion zsh)                      in ~/.zshrc, after compinit
    lapis completion fish > ~/.config/fish/completions/lapis.fish

The scripts are generated from the same dataclasses as the parser. zsh runs the script of bash.
Files are completed where no word matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from lapis.cli.command_line import COMMANDS, GROUPS, Command, list_names
from lapis.registry.method_table import methods_of
from lapis.registry.option_field import Option, options_of

BASH = """\
_lapis() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" place=1 words=""
    case "$command" in {groups}) command="$command ${{COMP_WORDS[2]}}"; place=2 ;; esac
    if (( COMP_CWORD <= place )); then
        case "${{COMP_WORDS[1]}}:$COMP_CWORD" in
{names}
        esac
    else
        case "$command:$previous" in
{values}
            *) if [[ "$current" == -* ]]; then
                case "$command" in
{flags}
                esac
            fi ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _lapis lapis"""


def write_script(shell: str) -> str:
    """Return the script for a shell."""
    if shell == "fish":
        return "\n".join(fish_lines())
    script = bash_script()
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def bash_script() -> str:
    groups = [f'{group}:2) words="{" ".join(own_names(group))}" ;;' for group in GROUPS]
    top = f'*:1) words="{" ".join([*list_names(""), "--help", "--version"])}" ;;'
    flags, values = [], []
    for command in COMMANDS.values():
        spelled = [flag for option in options_of(command.options) for flag in option.flags]
        flags.append(f'{quote(command.name)}) words="{" ".join([*spelled, "--help"])}" ;;')
        values += [
            f'{quote(f"{command.name}:{flag}")}) words="{" ".join(words)}" ;;'
            for option in options_of(command.options)
            if (words := words_of(option))
            for flag in option.flags
        ]
        values += [
            f"{quote(f'{command.name}:{command.name.split()[-1]}')}) "
            f'words="{" ".join(argument.choices)}" ;;'
            for argument in command.arguments
            if argument.choices
        ]
    return BASH.format(
        groups="|".join(GROUPS),
        names=indented([*groups, top], 12),
        values=indented(values, 12),
        flags=indented(flags, 20),
    )


def indented(lines: Sequence[str], spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in lines)


def own_names(group: str) -> list[str]:
    return [name.removeprefix(f"{group} ") for name in list_names(group)]


def words_of(option: Option) -> Sequence[str]:
    """List the values of an option, if they are known words."""
    return tuple(methods_of(option.task)) if option.task is not None else option.choices


def fish_lines() -> Iterator[str]:
    top = "__fish_use_subcommand"
    for name in list_names(""):
        about = COMMANDS[name].help if name in COMMANDS else GROUPS[name]
        yield f"complete -c lapis -f -n {top} -a {name} -d {quote(about)}"
    for group in GROUPS:
        seen = quote(
            f"__fish_seen_subcommand_from {group}; and test (count (commandline -opc)) -eq 2"
        )
        for name in own_names(group):
            about = COMMANDS[f"{group} {name}"].help
            yield f"complete -c lapis -f -n {seen} -a {name} -d {quote(about)}"
    for command in COMMANDS.values():
        yield from fish_options(command)


def fish_options(command: Command) -> Iterator[str]:
    words = command.name.split()
    after = f"string match -q {quote(f'lapis {command.name} *')} -- (commandline -pc)"
    for argument in command.arguments:
        if argument.choices:
            allowed = quote(" ".join(argument.choices))
            seen = quote(f"__fish_seen_subcommand_from {words[-1]}")
            yield f"complete -c lapis -f -n {seen} -a {allowed}"
    for option in options_of(command.options):
        names = [f"-s {flag[1:]}" if len(flag) == 2 else f"-l {flag[2:]}" for flag in option.flags]
        value = ""
        if option.kind != "flag":
            choices = words_of(option)
            value = f" -xa {quote(' '.join(choices))}" if choices else " -r"
        about = quote(option.help)
        yield f"complete -c lapis -n {quote(after)} {' '.join(names)}{value} -d {about}"
