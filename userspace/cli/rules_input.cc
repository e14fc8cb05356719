// SPDX-License-Identifier: Apache-2.0
#include "cli/rules_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/pod_input.h"
#include "intake/config_check.h"
#include "intake/prekill_hook_config.h"
#include "intake/proactive_reclaim_config.h"
#include "intake/ruleset_config.h"
#include "text/json_output.h"

namespace forestall::cli {

Result<std::vector<DropInText>> read_drop_ins(const std::string& directory) {
  std::error_code failed;
  std::filesystem::directory_iterator each(directory, failed);
  std::vector<std::string> names;
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code not_a_file;
    const std::string name = each->path().filename().string();
    if (!name.starts_with('.') && each->is_regular_file(not_a_file)) names.push_back(name);
  }
  if (failed) return error(fmt::format("cannot list {}: {}", directory, failed.message()));
  std::sort(names.begin(), names.end());
  std::vector<DropInText> files;
  for (const std::string& name : names) {
    files.push_back({name, TRY(read_input(directory + "/" + name))});
  }
  return files;
}

void add_unreadable(const std::string& path, const Error& failure, text::Findings& findings) {
  findings.errors.push_back({{path, std::nullopt}, failure.text()});
}

std::optional<OwnRulesets> load_own_rulesets(const std::string& path, text::Findings& findings) {
  const auto text = read_input(path);
  if (!text) {
    add_unreadable(path, text.error(), findings);
    return std::nullopt;
  }
  intake::ReadConfig own;
  own.file = path;
  std::vector<text::Diagnostic> problems;
  own.places = messages::read_yaml(*text, own.message, problems);
  findings.add_errors(path, problems);
  intake::Report report(own.file, own.places, findings);
  OwnRulesets out{intake::check_rulesets(own.message, report),
                  intake::check_prekill_hooks(own.message, report)};
  for (rulesets::Ruleset& each : intake::check_reclaim(own.message, out.rulesets, report)) {
    out.rulesets.push_back(std::move(each));
  }
  if (!findings.errors.empty()) return std::nullopt;
  if (!out.rulesets.empty()) return out;
  report.error("rulesets", "there are no 'rulesets' and no 'reclaim' to evaluate");
  return std::nullopt;
}

std::optional<intake::OomdConfig> load_oomd_config(const std::string& path,
                                                   text::Findings& findings) {
  const auto text = read_input(path);
  if (!text) {
    add_unreadable(path, text.error(), findings);
    return std::nullopt;
  }
  return intake::parse_oomd_config(path, *text, findings);
}

int refuse(const Options& options, const text::Findings& findings) {
  fmt::print(stderr, "{}\n", printable_lines(text::format(findings.errors)));
  if (options.output == OutputFormat::json) {
    text::JsonOutput errors = text::JsonOutput::list();
    for (const text::Finding& each : findings.errors) {
      text::JsonOutput error = text::JsonOutput::object();
      error.set("place", text::to_string(each.origin)).set("message", each.message);
      errors.add(std::move(error));
    }
    text::JsonOutput root = text::JsonOutput::object();
    root.set("errors", std::move(errors));
    fmt::print("{}\n", root.line());
  }
  return kExitUsage;
}

}  // namespace forestall::cli
