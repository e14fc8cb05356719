// SPDX-License-Identifier: Apache-2.0
// oomd's rulesets on a few lines of observations, with what happened as short text. JSON may be
// written with single quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forestall::test {

[[nodiscard]] std::string double_quoted(std::string_view json);

// A configuration with one ruleset "r" and one group "g"; lists of plugins, with single quotes.
// `more` are further members of the ruleset: ", 'post_action_delay': 0".
[[nodiscard]] std::string one_ruleset(std::string_view detectors, std::string_view actions,
                                      std::string_view more = "");

struct OomdCase {
  std::string config;
  std::vector<std::string> lines;  // observations
  std::string io_devices = {};
  bool dry_run = false;
  bool names = true;  // actions by the names of their plugins
  bool own = false;   // `config` is Forestall's, in YAML
};

// One text for each line: for each ruleset that fired or ran "r[g] paused resumed action=result(
// /a killed)", then "write /a/memory.high=1", "drop-in a.json refused". Fails the test if a file
// has mistakes.
[[nodiscard]] std::vector<std::string> outcomes(const OomdCase& given);
// The ranking of the last action that ran at the last line: "/a /b".
[[nodiscard]] std::string last_ranking(const OomdCase& given);

}  // namespace forestall::test
