// crumb completion SHELL: prints the script that lets a shell complete crumb's command lines.
#include <iostream>

#include "cli/flags/verb.h"

namespace crumb::cli {
namespace {

constexpr std::string_view kBash =
    R"(# Completion of crumb for bash: source it, or put it into a folder that bash-completion reads.
_crumb() {
  local -a words
  local line=${COMP_LINE:0:COMP_POINT} text help cur stem files= IFS=$' \t\n'
  read -a words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  cur=${words[-1]}
  # bash replaces only what stands behind the last ':' or '='.
  stem=${cur%"${cur##*[:=]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r text help; do
    if [[ $text == :files ]]; then files=1; else COMPREPLY+=("${text#"$stem"}"); fi
  done < <("${words[0]/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r text; do COMPREPLY+=("$text"); done < <(compgen -f -- "${cur#"$stem"}")
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _crumb crumb
)";

constexpr std::string_view kZsh = R"(#compdef crumb
# Completion of crumb for zsh: put it as _crumb into a folder of $fpath.
_crumb() {
  local line text
  local -a lines whole begun whole_help begun_help
  local files=0
  lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in $lines; do
    text=${line%%$'\t'*}
    if [[ $text == :files ]]; then
      files=1
    elif [[ $text == *[=:] ]]; then
      begun+=("$text")
      begun_help+=("$text  ${line#*$'\t'}")
    else
      whole+=("$text")
      whole_help+=("$text  ${line#*$'\t'}")
    fi
  done
  (( $#whole )) && compadd -l -d whole_help -a whole
  (( $#begun )) && compadd -l -S '' -d begun_help -a begun
  if (( files )); then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _crumb ]]; then _crumb "$@"; else compdef _crumb crumb; fi
)";

constexpr std::string_view kFish =
    R"(# Completion of crumb for fish: put it as crumb.fish into ~/.config/fish/completions.
function __crumb_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l program $before[1]
    set -e before[1]
    for line in ($program complete $before "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (string replace -r '^.*=' '' -- "$current")
        else
            echo -- $line
        end
    end
end
complete -c crumb -f -a '(__crumb_complete)'
)";

struct Shell {
  const char* name;
  std::string_view script;
};

constexpr Shell kShells[] = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};

void print_script(const std::string& shell) {
  for (const auto& [name, script] : kShells)
    if (shell == name) std::cout << script;
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* script = app.add_subcommand("completion", "Print the script by which a shell completes crumb");
  script->add_option("shell", *shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  script->footer(
      "cmake --install puts each where its shell looks.\n\n"
      "Example:\n  crumb completion bash > ~/.local/share/bash-completion/completions/crumb");
  script->callback([shell] { print_script(*shell); });
}

}  // namespace crumb::cli
