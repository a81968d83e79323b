#include "cli/completion.h"

namespace forebay {
namespace {

// Each script hands the words up to the cursor to the program and takes its lines apart. Names may
// come from S3 keys, which are any text: nothing of them may reach a command line unquoted.

constexpr const char* kBash =
    R"script(# bash completion for forebay: source <(forebay completion bash)
_forebay() {
  # Readline takes words apart at ':' and '=' as well; they are put together again by the blanks.
  local rest=${COMP_LINE:0:COMP_POINT} piece blanks
  local -a words=() lines=()
  for piece in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    blanks=${rest%%[![:space:]]*}
    rest=${rest:${#blanks}}
    piece=${piece:0:${#rest}}
    rest=${rest:${#piece}}
    if [[ -z $blanks && ${#words[@]} -gt 0 ]]; then words[-1]+=$piece; else words+=("$piece"); fi
  done
  local current=${words[-1]}
  # What readline does not replace: the parts before the last one.
  [[ $piece == [:=]* ]] && piece=
  local kept=${current:0:${#current}-${#piece}}
  kept=${kept//\\/}
  words[-1]=${current//\\/}
  local quote=
  if [[ $current == [\'\"]* ]]; then
    quote=yes
    words[-1]=${current:1}
  fi
  mapfile -t lines < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  case ${lines[0]-} in
    :files|:folders)
      compopt -o filenames 2>/dev/null
      local action=file
      [[ ${lines[0]} == :folders ]] && action=directory
      mapfile -t COMPREPLY < <(compgen -A "$action" -- "${words[-1]}")
      return ;;
  esac
  local line word quoted
  for line in "${lines[@]:1}"; do
    word=${line%%$'\t'*}
    word=${word:${#kept}}
    printf -v quoted %q "$word"
    if [[ -z $quote ]]; then
      COMPREPLY+=("$quoted")
    elif [[ $quoted == "$word" ]]; then
      COMPREPLY+=("$word")
    fi
  done
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _forebay forebay
)script";

constexpr const char* kZsh = R"script(#compdef forebay
# zsh completion for forebay: source <(forebay completion zsh)
_forebay() {
  local -a lines plain open
  local line word about
  lines=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  case ${lines[1]} in
    :files) _files; return ;;
    :folders) _files -/; return ;;
  esac
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*}
    about=${line#*$'\t'}
    [[ -z $word ]] && continue
    # A backslash and a colon have a meaning in what _describe reads.
    word=${word//\\/\\\\}
    word=${word//:/\\:}
    if [[ $word == */ ]]; then open+=("$word${about:+:$about}"); else plain+=("$word${about:+:$about}"); fi
  done
  local found=1
  (( ${#plain} )) && _describe -t words word plain && found=0
  (( ${#open} )) && _describe -t folders folder open -S '' && found=0
  return found
}
if [[ ${funcstack[1]} == _forebay ]]; then
  _forebay "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -D; }
  compdef _forebay forebay
fi
)script";

constexpr const char* kFish =
    R"script(# fish completion for forebay: forebay completion fish | source
function __forebay_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case ':files'
            __fish_complete_path "$current"
        case ':folders'
            __fish_complete_directories "$current" ''
        case '*'
            string join -- \n $lines[2..-1]
    end
end
complete -c forebay -f -a '(__forebay_complete)'
)script";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return kBash;
}

}  // namespace forebay
