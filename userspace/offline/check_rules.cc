// SPDX-License-Identifier: Apache-2.0
// `forestall check-config --oomd-config`.
#include <fmt/format.h>

#include <utility>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/rules_input.h"
#include "cli/ruleset_json.h"
#include "cli/ruleset_text.h"
#include "offline/commands.h"

namespace forestall::cli {
namespace {

// A drop-in, and the names under which it is printed.
struct CheckedDropIn {
  std::string file;
  intake::OomdDropIn drop_in;
};

void append(std::vector<intake::OomdDifference>& all,
            const std::vector<intake::OomdDifference>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

text::JsonOutput differences_json(const std::vector<intake::OomdDifference>& differences) {
  text::JsonOutput list = text::JsonOutput::list();
  for (const intake::OomdDifference& each : differences) {
    text::JsonOutput item = text::JsonOutput::object();
    item.set("place", text::to_string(each.place)).set("original", each.original);
    item.set("forestall", each.forestall);
    list.add(std::move(item));
  }
  return list;
}

void print_json(const intake::OomdConfig& config, const std::vector<CheckedDropIn>& drop_ins,
                const std::vector<intake::OomdDifference>& differences) {
  text::JsonOutput rulesets = text::JsonOutput::list();
  for (const rulesets::Ruleset& each : config.rulesets) rulesets.add(ruleset_json(each));
  text::JsonOutput hooks = text::JsonOutput::list();
  for (const rulesets::PrekillHook& each : config.hooks) hooks.add(hook_json(each));
  text::JsonOutput files = text::JsonOutput::list();
  for (const CheckedDropIn& each : drop_ins) {
    text::JsonOutput merged = text::JsonOutput::list();
    for (const rulesets::DropInRuleset& ruleset : each.drop_in.file.rulesets) {
      merged.add(ruleset_json(ruleset.merged));
    }
    text::JsonOutput file = text::JsonOutput::object();
    file.set("file", each.file).set("rulesets", std::move(merged));
    files.add(std::move(file));
  }
  text::JsonOutput out = text::JsonOutput::object();
  out.set("rulesets", std::move(rulesets)).set("prekillHooks", std::move(hooks));
  if (!drop_ins.empty()) out.set("dropIns", std::move(files));
  out.set("differences", differences_json(differences));
  fmt::print("{}", out.pretty());
}

void print_words(const intake::OomdConfig& config, const std::vector<CheckedDropIn>& drop_ins,
                 const std::vector<intake::OomdDifference>& differences) {
  if (config.rulesets.empty()) fmt::print("no rulesets\n");
  for (const rulesets::Ruleset& each : config.rulesets) fmt::print("{}", ruleset_text(each));
  for (const rulesets::PrekillHook& each : config.hooks) fmt::print("{}", hook_text(each));
  for (const CheckedDropIn& each : drop_ins) {
    fmt::print("\ndrop-in {}, before the ruleset of the same name:\n", printable(each.file));
    for (const rulesets::DropInRuleset& ruleset : each.drop_in.file.rulesets) {
      fmt::print("{}", ruleset_text(ruleset.merged));
    }
    for (const rulesets::PrekillHook& hook : each.drop_in.file.hooks) {
      fmt::print("{}", hook_text(hook));
    }
  }
  if (!differences.empty()) fmt::print("\nwhere oomd differs:\n");
  for (const intake::OomdDifference& each : differences) {
    fmt::print("{}: oomd {}; Forestall {}\n", printable(text::to_string(each.place)), each.original,
               each.forestall);
  }
}

}  // namespace

int run_check_rules(const Options& options, const CheckConfigOptions& check) {
  if (!options.config.empty()) {
    return fail("check-config", error("--oomd-config and --config exclude each other"), kExitUsage);
  }
  text::Findings findings;
  const auto config = load_oomd_config(check.oomd_config, findings);
  if (!config) return refuse(options, findings);
  std::vector<intake::OomdDifference> differences = config->differences;
  std::vector<CheckedDropIn> drop_ins;
  if (!check.drop_in_dir.empty()) {
    const auto files = read_drop_ins(check.drop_in_dir);
    if (!files) {
      add_unreadable(check.drop_in_dir, files.error(), findings);
      return refuse(options, findings);
    }
    for (const DropInText& each : *files) {
      auto drop_in = intake::parse_oomd_drop_in(check.drop_in_dir + "/" + each.name, each.name,
                                                each.text, config->rulesets, findings);
      if (!drop_in) continue;
      append(differences, drop_in->differences);
      drop_ins.push_back({each.name, std::move(*drop_in)});
    }
  }
  if (!findings.errors.empty()) return refuse(options, findings);
  if (options.output == OutputFormat::json) {
    print_json(*config, drop_ins, differences);
  } else {
    print_words(*config, drop_ins, differences);
  }
  return kExitOk;
}

}  // namespace forestall::cli
