// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <span>
#include <string_view>

#include "cli/commands.h"
#include "cli/exit_code.h"

namespace forestall::cli {
namespace {

using Kind = CompletedValue::Kind;

constexpr std::string_view kOrigin =
    "forestall " FORESTALL_VERSION ", printed by `forestall completion";

std::span<const CompletedCommand> subcommands(const std::vector<CompletedCommand>& all) {
  return std::span(all).subspan(1);
}

// `text` with `before` in front of each of `characters`.
std::string with_escapes(std::string_view text, std::string_view characters,
                         std::string_view before) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += before;
    out += c;
  }
  return out;
}

// --- bash ---------------------------------------------------------------------------------------

constexpr std::string_view kBashHead = R"(_forestall() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= words=
  # bash splits --option=value at the sign.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}
  COMPREPLY=()
  case "$command $previous" in
)";

constexpr std::string_view kBashTail = R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
_forestall_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}
complete -F _forestall forestall
)";

// What follows in a case of the script.
std::string bash_action(const CompletedValue& value) {
  switch (value.kind) {
    case Kind::none:
    case Kind::text: return "return";
    case Kind::words: return fmt::format("words='{}'", fmt::join(value.words, " "));
    case Kind::files: return "_forestall_paths -f \"$current\"; return";
    case Kind::directories: return "_forestall_paths -d \"$current\"; return";
  }
  return "return";
}

void add_bash_values(const CompletedCommand& command, std::string& out) {
  for (const CompletedOption& option : command.options) {
    if (option.value.kind == Kind::none) continue;
    std::string patterns;
    for (const std::string& name : option.names) {
      patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", command.name, name);
    }
    fmt::format_to(std::back_inserter(out), "    {}) {} ;;\n", patterns, bash_action(option.value));
  }
}

void add_bash_words(const CompletedCommand& command, std::string_view pattern, std::string& out) {
  std::vector<std::string> names;
  for (const CompletedOption& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  fmt::format_to(std::back_inserter(out),
                 "    '{} -'*) words='{}' ;;\n"
                 "    '{} '*) {} ;;\n",
                 pattern, fmt::join(names, " "), pattern, bash_action(command.arguments));
}

std::string bash_script(const std::vector<CompletedCommand>& commands) {
  std::string out = fmt::format("# bash completion of {} bash`\n{}", kOrigin, kBashHead);
  for (const CompletedCommand& command : subcommands(commands)) add_bash_values(command, out);
  out += "    *) ;;\n  esac\n  [[ -n $words ]] || case \"$command $current\" in\n";
  add_bash_words(commands.front(), "", out);
  for (const CompletedCommand& command : subcommands(commands)) {
    add_bash_words(command, command.name, out);
  }
  return out.append(kBashTail);
}

// --- zsh ----------------------------------------------------------------------------------------

std::string zsh_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The part of a specification of _arguments after the option.
std::string zsh_value(const CompletedValue& value) {
  switch (value.kind) {
    case Kind::none: return "";
    case Kind::text: return ":value: ";
    case Kind::words: return fmt::format(":value:({})", fmt::join(value.words, " "));
    case Kind::files: return ":file:_files";
    case Kind::directories: return ":directory:_files -/";
  }
  return "";
}

void add_zsh_options(const CompletedCommand& command, std::string& out) {
  for (const CompletedOption& option : command.options) {
    for (const std::string& name : option.names) {
      const bool assigns = option.value.kind != Kind::none && name.starts_with("--");
      const std::string spec =
          fmt::format("*{}{}[{}]{}", name, assigns ? "=" : "",
                      with_escapes(option.help, "[]:\\", "\\"), zsh_value(option.value));
      out += " \\\n        " + zsh_quoted(spec);
    }
  }
  if (command.arguments.kind == Kind::none) return;
  out += " \\\n        " + zsh_quoted("*" + zsh_value(command.arguments));
}

std::string zsh_script(const std::vector<CompletedCommand>& commands) {
  std::string out =
      fmt::format("#compdef forestall\n# zsh completion of {} zsh`\n_forestall() {{\n", kOrigin);
  out += "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    local -a subcommands=(\n";
  for (const CompletedCommand& command : subcommands(commands)) {
    out += "      " + zsh_quoted(command.name + ":" + command.help) + "\n";
  }
  out +=
      "    )\n    _describe -t commands subcommand subcommands\n    return\n  fi\n"
      "  local subcommand=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
      "  case $subcommand in\n";
  for (const CompletedCommand& command : subcommands(commands)) {
    out += "    " + command.name + ")\n      _arguments -s";
    add_zsh_options(command, out);
    out += "\n      ;;\n";
  }
  out += "  esac\n}\n";
  // The file is the function itself if zsh loads it, and defines it if a user sources it.
  return out +
         "if [[ $funcstack[1] == _forestall ]]; then\n  _forestall \"$@\"\nelse\n"
         "  compdef _forestall forestall\nfi\n";
}

// --- fish ---------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) {
  return "'" + with_escapes(text, "'\\", "\\") + "'";
}

std::string fish_value(const CompletedValue& value) {
  switch (value.kind) {
    case Kind::none: return "";
    case Kind::text: return " -x";
    case Kind::words: return fmt::format(" -x -a '{}'", fmt::join(value.words, " "));
    case Kind::files: return " -r -F";
    case Kind::directories: return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

void add_fish_command(const CompletedCommand& command, std::string& out) {
  const std::string line =
      fmt::format("complete -c forestall -n '__fish_seen_subcommand_from {}'", command.name);
  for (const CompletedOption& option : command.options) {
    out += line;
    for (const std::string& name : option.names) {
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    out += fish_value(option.value) + " -d " + fish_quoted(option.help) + "\n";
  }
  if (command.arguments.kind == Kind::files) out += line + " -F\n";
  if (command.arguments.kind == Kind::words) out += line + fish_value(command.arguments) + "\n";
}

std::string fish_script(const std::vector<CompletedCommand>& commands) {
  std::string out = fmt::format("# fish completion of {} fish`\n", kOrigin);
  out += "complete -c forestall -f\n";
  for (const CompletedCommand& command : subcommands(commands)) {
    out += fmt::format("complete -c forestall -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       fish_quoted(command.help));
  }
  for (const CompletedCommand& command : subcommands(commands)) add_fish_command(command, out);
  return out;
}

}  // namespace

std::string completion_script(const CompletionOptions& options) {
  switch (options.shell) {
    case Shell::bash: return bash_script(options.commands);
    case Shell::zsh: return zsh_script(options.commands);
    case Shell::fish: return fish_script(options.commands);
  }
  return {};
}

int run_completion(const CompletionOptions& options) {
  // main() reports a failed write.
  std::fputs(completion_script(options).c_str(), stdout);
  return kExitOk;
}

}  // namespace forestall::cli
