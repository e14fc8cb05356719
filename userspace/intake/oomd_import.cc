// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "intake/config_check.h"
#include "intake/prekill_hook_config.h"
#include "intake/report.h"
#include "intake/ruleset_config.h"

namespace forestall::intake {
namespace {

std::string yaml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string yaml_list(const rulesets::CgroupPatterns& patterns) {
  std::string out;
  for (const rulesets::CgroupPattern& each : patterns) {
    std::string path;
    for (const std::string& component : each.components) path += "/" + component;
    out += (out.empty() ? "" : ", ") + yaml_quoted(path.empty() ? "/" : path);
  }
  return "[" + out + "]";
}

std::string yaml_size(const rulesets::SizeOrPercent& size) {
  return fmt::format("\"{}{}\"", size.value, size.is_percent ? "%" : "");
}

std::string_view yaml_resource(rulesets::PressureResource resource) {
  return resource == rulesets::PressureResource::io ? "io" : "memory";
}

// What a plugin cannot be; the text completes "ruleset 'r', action 1 (senpai): ".
using PluginText = Result<std::string>;

// A duration that oomd compares: one below 0 is always over.
std::string yaml_seconds(std::int64_t seconds) {
  return fmt::format("{}s", std::max<std::int64_t>(seconds, 0));
}

struct DetectorWriter {
  // Oomd's empty list of cgroups: no reading, so the detector never fires.
  static std::string never() { return "always: false"; }

  PluginText operator()(const rulesets::PressureAbove& each) const {
    if (each.threshold < 0) return error("a threshold below 0 always fires; leave it out");
    if (each.cgroups.empty()) return never();
    std::string out =
        fmt::format("pressure: {{cgroups: {}, resource: {}, above: {}%, for: {}, worstBy: weighted",
                    yaml_list(each.cgroups), yaml_resource(each.resource), each.threshold,
                    yaml_seconds(each.duration));
    if (each.fast_fall_ratio) {
      out += fmt::format(", average: 60s, fallingAtMostTo: \"{}\"", *each.fast_fall_ratio);
    }
    return out + "}";
  }

  PluginText operator()(const rulesets::MemoryAbove& each) const {
    if (each.threshold.value < 0) return error("a threshold below 0 always fires; leave it out");
    if (each.cgroups.empty()) return never();
    return fmt::format("usage: {{cgroups: {}, of: {}, above: {}, for: {}}}",
                       yaml_list(each.cgroups), each.anon ? "anon" : "memory",
                       yaml_size(each.threshold), yaml_seconds(each.duration));
  }

  PluginText operator()(const rulesets::MemoryReclaim& each) const {
    if (each.cgroups.empty() || each.duration < 0) return never();
    return fmt::format("reclaim: {{cgroups: {}, within: {}s}}", yaml_list(each.cgroups),
                       each.duration);
  }

  PluginText operator()(const rulesets::SwapFree& each) const {
    return fmt::format("available: {{resource: swap, below: {}%}}", each.percent);
  }

  PluginText operator()(const rulesets::Exists& each) const {
    if (each.cgroups.empty()) return fmt::format("always: {}", each.negate);
    return fmt::format("{}: {}", each.negate ? "absent" : "exists", yaml_list(each.cgroups));
  }

  PluginText operator()(const rulesets::DyingDescendants& each) const {
    if (each.cgroups.empty()) return never();
    return fmt::format("dyingDescendants: {{cgroups: {}, {}: {}}}", yaml_list(each.cgroups),
                       each.at_most ? "atMost" : "above", each.count);
  }

  PluginText operator()(const rulesets::CgroupOverview& /*unused*/) const {
    return std::string("always: true");
  }

  PluginText operator()(const rulesets::Always& each) const {
    return fmt::format("always: {}", each.proceed);
  }

  template <typename Action>
  PluginText operator()(const Action& /*unused*/) const {
    return error("an action among the detectors; write it as an action of a ruleset of its own");
  }
};

struct ActionWriter {
  PluginText operator()(const rulesets::Always& each) const {
    return fmt::format("chain: {}", each.proceed ? "continue" : "stop");
  }

  PluginText operator()(const rulesets::CgroupOverview& /*unused*/) const {
    return std::string("chain: continue");
  }

  PluginText operator()(const rulesets::Kill& each) const {
    using rulesets::KillBy;
    if (each.cgroups.empty()) return error("its list of cgroups is empty: it kills nothing");
    constexpr std::string_view kOrders[] = {"sizeOrGrowth", "swap", "pressure", "ioCost", "scans"};
    std::string out =
        fmt::format("kill: {{cgroups: {}, by: {}, preference: oomd", yaml_list(each.cgroups),
                    kOrders[static_cast<std::size_t>(each.by)]);
    if (each.recursive) out += ", descend: true";
    if (each.always_continue) out += ", thenContinue: true";
    if (each.dry) out += ", dryRun: true";
    if (each.post_action_delay) out += fmt::format(", pause: {}s", *each.post_action_delay);
    if (each.by == KillBy::memory_size_or_growth) {
      out += fmt::format(", sizeShare: {}%, growthPercentile: {}, growthRatio: \"{}\"",
                         each.size_threshold, each.growing_size_percentile, each.min_growth_ratio);
    }
    if (each.by == KillBy::swap_usage) out += ", swapAtLeast: " + yaml_size(each.swap_threshold);
    if (each.by == KillBy::pressure) {
      out += fmt::format(", resource: {}", yaml_resource(each.resource));
    }
    return out + "}";
  }

  PluginText operator()(const rulesets::RestartUnit& each) const {
    return fmt::format("restart: {{unit: {}, pause: {}s{}}}", yaml_quoted(each.service),
                       each.post_action_delay, each.dry ? ", dryRun: true" : "");
  }

  PluginText operator()(const rulesets::Senpai& /*unused*/) const {
    return error("rulesets have no proactive reclaim");
  }

  template <typename Detector>
  PluginText operator()(const Detector& /*unused*/) const {
    return error("a detector among the actions; add it to the groups of detectors");
  }
};

class Importer {
 public:
  Importer(const std::string& file, text::Findings& findings) : file_(file), findings_(findings) {}

  void add(const rulesets::Ruleset& ruleset) {
    yaml_ += fmt::format("- name: {}\n  pause: {}s\n", yaml_quoted(ruleset.name),
                         ruleset.post_action_delay);
    if (ruleset.prekill_hook_timeout != rulesets::Ruleset().prekill_hook_timeout) {
      yaml_ += fmt::format("  prekillHookTimeout: {}s\n", ruleset.prekill_hook_timeout);
    }
    yaml_ += "  detectors:\n";
    for (const rulesets::DetectorGroup& group : ruleset.groups) {
      yaml_ += fmt::format("  - name: {}\n    all:\n", yaml_quoted(group.name));
      for (const rulesets::Plugin& plugin : group.plugins) {
        const std::string place = fmt::format("group '{}'", group.name);
        add_plugin(ruleset, place, plugin, std::visit(DetectorWriter(), plugin.arguments), "    ");
      }
    }
    yaml_ += "  actions:\n";
    for (std::size_t a = 0; a < ruleset.actions.size(); ++a) {
      const rulesets::Plugin& plugin = ruleset.actions[a];
      add_plugin(ruleset, fmt::format("action {}", a + 1), plugin,
                 std::visit(ActionWriter(), plugin.arguments), "  ");
    }
    const auto note = [&](bool given, std::string_view what) {
      if (given) notes_.push_back(fmt::format("ruleset '{}': {}", ruleset.name, what));
    };
    note(ruleset.silence_engine || ruleset.silence_plugins,
         "'silence-logs' is left out; it decides nothing");
    note(ruleset.drop_in_detectors || ruleset.drop_in_actions || ruleset.disable_on_drop_in,
         "'drop-in' is left out; Forestall's rulesets have no drop-ins");
  }

  void add_no_rulesets() { yaml_ = "rulesets: []\n"; }

  // oomd's only hook logs. Names are those of a list, so that each is used once.
  void add_hooks(const std::vector<rulesets::PrekillHook>& hooks) {
    std::string items;
    for (std::size_t i = 0; i < hooks.size(); ++i) {
      const rulesets::PrekillHook& hook = hooks[i];
      if (hook.cgroups.empty()) {
        notes_.push_back(
            fmt::format("prekill hook {} ('{}') is left out: it has no cgroup", i + 1, hook.name));
        continue;
      }
      items += fmt::format("- name: {}\n  cgroups: {}\n  log: {}\n",
                           yaml_quoted(fmt::format("{} {}", hook.name, i + 1)),
                           yaml_list(hook.cgroups), yaml_quoted("prekill hook " + hook.name));
    }
    if (!items.empty()) yaml_ += "prekillHooks:\n" + items;
  }

  [[nodiscard]] std::string take_yaml() { return std::move(yaml_); }
  [[nodiscard]] std::vector<std::string>& notes() { return notes_; }

 private:
  void add_plugin(const rulesets::Ruleset& ruleset, const std::string& place,
                  const rulesets::Plugin& plugin, const PluginText& written,
                  std::string_view indent) {
    if (written) {
      yaml_ += fmt::format("{}- {}\n", indent, *written);
      return;
    }
    findings_.errors.push_back({{file_, std::nullopt},
                                fmt::format("ruleset '{}', {} ({}): {}", ruleset.name, place,
                                            plugin.name, written.error().message)});
  }

  const std::string& file_;
  text::Findings& findings_;
  std::string yaml_ = "rulesets:\n";
  std::vector<std::string> notes_;
};

// What Forestall's configuration refuses, such as a percentage above 100, is refused here.
void check_imported(const std::string& file, ImportedRulesets& imported, text::Findings& findings) {
  const std::string name = "imported rulesets of " + file;
  ReadConfig read;
  std::vector<text::Diagnostic> problems;
  read.places = messages::read_yaml(imported.yaml, read.message, problems);
  findings.add_errors(name, problems);
  if (!problems.empty()) return;
  Report report(name, read.places, findings);
  imported.rulesets = check_rulesets(read.message, report);
  imported.hooks = check_prekill_hooks(read.message, report);
}

}  // namespace

std::optional<ImportedRulesets> import_oomd(const std::string& file, const OomdConfig& config,
                                            text::Findings& findings) {
  Importer importer(file, findings);
  for (const rulesets::Ruleset& each : config.rulesets) importer.add(each);
  if (config.rulesets.empty()) importer.add_no_rulesets();
  importer.add_hooks(config.hooks);
  if (!findings.errors.empty()) return std::nullopt;
  ImportedRulesets imported{importer.take_yaml(), std::move(importer.notes()), {}, {}};
  check_imported(file, imported, findings);
  if (!findings.errors.empty()) return std::nullopt;
  return imported;
}

}  // namespace forestall::intake
