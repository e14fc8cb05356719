// SPDX-License-Identifier: Apache-2.0
// Shell completions, generated from the description of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forestall::cli {

enum class Shell : std::uint8_t { bash, zsh, fish };
// The words for them, in the same order.
[[nodiscard]] inline const std::vector<std::string>& shells() {
  static const std::vector<std::string> words{"bash", "zsh", "fish"};
  return words;
}

// What the shell offers as a value.
struct CompletedValue {
  enum class Kind : std::uint8_t { none, text, words, files, directories };
  Kind kind = Kind::none;               // none: takes no value; text: nothing can be offered
  std::vector<std::string> words = {};  // of Kind::words
};

struct CompletedOption {
  std::vector<std::string> names;  // with their dashes
  std::string help;
  CompletedValue value;
};

struct CompletedCommand {
  std::string name;
  std::string help;
  std::vector<CompletedOption> options;
  CompletedValue arguments;  // after the options
};

struct CompletionOptions {
  Shell shell = Shell::bash;
  // The program itself first, with the names of all others as its arguments.
  std::vector<CompletedCommand> commands = {};
};

// The script for a shell. REQUIRES: `commands` is not empty.
[[nodiscard]] std::string completion_script(const CompletionOptions& options);

}  // namespace forestall::cli
