// SPDX-License-Identifier: Apache-2.0
// Forms of options that many subcommands have: a value, one of several words, a number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace forestall::cli {

// An option with a value; `form` is the value as help shows it.
template <typename Target>
CLI::Option* add_value(CLI::App& command, const char* names, Target& target, const char* form,
                       const char* help) {
  return command.add_option(names, target, help)->option_text(form);
}

// An option that takes one of `words`; `set` gets the index of the word.
CLI::Option* add_choice(CLI::App& command, const char* names, const std::vector<std::string>& words,
                        const std::function<void(std::size_t)>& set, const char* help);

// Checks of a value: they return the error, empty if there is none.
using ValueCheck = std::function<std::string(const std::string&)>;
[[nodiscard]] ValueCheck one_of(const std::vector<std::string>& words);
[[nodiscard]] ValueCheck number_from(std::uint64_t least);

// The pids that can exist.
[[nodiscard]] const CLI::Range& pid_range();

}  // namespace forestall::cli
