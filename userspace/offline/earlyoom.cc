// SPDX-License-Identifier: Apache-2.0
// `forestall earlyoom`: what earlyoom with these options does on given readings, and the ruleset
// that the options amount to.
#include <fmt/format.h>

#include <utility>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/pod_input.h"
#include "cli/rules_input.h"
#include "intake/earlyoom_input.h"
#include "offline/commands.h"
#include "offline/refusal.h"
#include "rulesets/earlyoom.h"
#include "text/json_output.h"

namespace forestall::cli {
namespace {

using rulesets::EarlyoomOptions;
using rulesets::EarlyoomProcess;
using rulesets::EarlyoomSignal;
using rulesets::EarlyoomVersion;
using text::JsonOutput;

struct EarlyoomRun {
  EarlyoomOptions options;
  rulesets::EarlyoomMemory memory;
  std::vector<EarlyoomProcess> processes;
};

// Reads an input file, or adds a finding.
std::string earlyoom_input_text(const std::string& path, text::Findings& findings) {
  auto text = read_input(path);
  if (text) return *std::move(text);
  findings.errors.push_back(finding_in(path, text.error()));
  return {};
}

EarlyoomRun read_earlyoom_run(const EarlyoomCommand& command, text::Findings& findings) {
  EarlyoomRun run;
  const auto version = command.compat == "1.7" ? EarlyoomVersion::v1_7 : EarlyoomVersion::v1_9;
  const std::string meminfo = earlyoom_input_text(command.meminfo, findings);
  const std::string processes = earlyoom_input_text(command.processes, findings);
  if (!findings.errors.empty()) return run;
  run.memory = intake::read_earlyoom_meminfo(meminfo, command.meminfo, version, findings);
  run.processes = intake::read_earlyoom_processes(processes, command.processes, findings);
  // The limits of sizes need the totals.
  if (!findings.errors.empty()) return run;
  const intake::EarlyoomTotals totals{run.memory.total, run.memory.swap_total};
  run.options = intake::read_earlyoom_options(version, command.given, totals, findings);
  intake::match_earlyoom_processes(run.options, run.processes, findings);
  return run;
}

JsonOutput text_or_null(const std::optional<std::string>& text) {
  return text ? JsonOutput(*text) : JsonOutput();
}

JsonOutput earlyoom_level_json(const EarlyoomOptions& options, EarlyoomSignal signal) {
  const bool kill = signal == EarlyoomSignal::kill;
  const rulesets::EarlyoomThresholds& levels = options.thresholds;
  JsonOutput memory = JsonOutput::object();
  memory.set("atOrBelowPercent", kill ? levels.mem_kill : levels.mem_term)
      .set("of", options.version == EarlyoomVersion::v1_7 ? "MemTotal" : "MemAvailable+AnonPages");
  JsonOutput swap = JsonOutput::object();
  swap.set("atOrBelowPercent", kill ? levels.swap_kill : levels.swap_term).set("of", "SwapTotal");
  JsonOutput level = JsonOutput::object();
  level.set("signal", to_string(signal))
      .set("memoryAvailable", std::move(memory))
      .set("swapFree", std::move(swap));
  return level;
}

// All conditions of a level must hold; the first level that does decides the signal.
JsonOutput earlyoom_ruleset_json(const EarlyoomOptions& options) {
  JsonOutput levels = JsonOutput::list();
  levels.add(earlyoom_level_json(options, EarlyoomSignal::kill));
  levels.add(earlyoom_level_json(options, EarlyoomSignal::term));
  JsonOutput victim = JsonOutput::object();
  victim.set("kind", "process")
      .set("rankBy", options.sort_by_rss ? "rss" : "oom_score")
      .set("prefer", text_or_null(options.prefer))
      .set("avoid", text_or_null(options.avoid))
      .set("ignore", text_or_null(options.ignore))
      .set("ignoreRootUser", options.ignore_root_user)
      .set("processGroup", options.process_group);
  JsonOutput hooks = JsonOutput::object();
  hooks.set("beforeKill", text_or_null(options.program_before))
      .set("afterKill", text_or_null(options.program_after))
      .set("dbus", options.notify_dbus);
  JsonOutput ruleset = JsonOutput::object();
  ruleset.set("name", "earlyoom")
      .set("levels", std::move(levels))
      .set("victim", std::move(victim))
      .set("hooks", std::move(hooks))
      .set("dryRun", options.dry_run)
      .set("raisePriority", options.raise_priority)
      .set("reportIntervalMs", options.report_interval_ms);
  return ruleset;
}

JsonOutput earlyoom_victim_json(const EarlyoomProcess* victim, const EarlyoomOptions& options) {
  if (victim == nullptr) return {};
  const rulesets::EarlyoomRank rank = earlyoom_rank(*victim, options);
  JsonOutput out = JsonOutput::object();
  out.set("pid", victim->pid)
      .set("comm", victim->comm)
      .set("score", rank.score)
      .set("rssKib", rank.rss_kib);
  return out;
}

struct EarlyoomResult {
  rulesets::EarlyoomAvailable available;
  EarlyoomSignal signal = EarlyoomSignal::none;
  const EarlyoomProcess* victim = nullptr;
  std::int64_t sleep_ms = 0;
};

EarlyoomResult earlyoom_result(const EarlyoomRun& run) {
  EarlyoomResult result;
  result.available = earlyoom_available(run.memory, run.options.version);
  result.signal = earlyoom_signal(result.available, run.options.thresholds);
  if (result.signal != EarlyoomSignal::none) {
    const auto victim = earlyoom_victim(run.processes, run.options);
    if (victim) result.victim = &run.processes[*victim];
  }
  result.sleep_ms = earlyoom_sleep_ms(run.memory, run.options);
  return result;
}

void print_earlyoom_json(const EarlyoomCommand& command, const EarlyoomRun& run,
                         const EarlyoomResult& result, const std::vector<text::Finding>& warnings) {
  const rulesets::EarlyoomThresholds& levels = run.options.thresholds;
  JsonOutput thresholds = JsonOutput::object();
  thresholds.set("memTerm", levels.mem_term)
      .set("memKill", levels.mem_kill)
      .set("swapTerm", levels.swap_term)
      .set("swapKill", levels.swap_kill);
  JsonOutput available = JsonOutput::object();
  available.set("memory", result.available.memory).set("swap", result.available.swap);
  JsonOutput notes = JsonOutput::list();
  for (const std::string& each : text::format_each(warnings)) notes.add(each);
  JsonOutput report = JsonOutput::object();
  report.set("compat", command.compat)
      .set("thresholds", std::move(thresholds))
      .set("available", std::move(available))
      .set("signal", to_string(result.signal))
      .set("victim", earlyoom_victim_json(result.victim, run.options))
      .set("sleepMs", result.sleep_ms)
      .set("ruleset", earlyoom_ruleset_json(run.options))
      .set("warnings", std::move(notes));
  fmt::print("{}", report.pretty());
}

void print_earlyoom_text(const EarlyoomRun& run, const EarlyoomResult& result) {
  const rulesets::EarlyoomThresholds& levels = run.options.thresholds;
  fmt::print("SIGTERM if memory <= {:.4g} % and swap <= {:.4g} %\n", levels.mem_term,
             levels.swap_term);
  fmt::print("SIGKILL if memory <= {:.4g} % and swap <= {:.4g} %\n", levels.mem_kill,
             levels.swap_kill);
  fmt::print("available: memory {:.4g} %, swap {:.4g} %\n", result.available.memory,
             result.available.swap);
  if (result.signal == EarlyoomSignal::none) {
    fmt::print("no signal; next reading in {} ms\n", result.sleep_ms);
  } else if (result.victim == nullptr) {
    fmt::print("{}, but no process may be killed\n", to_string(result.signal));
  } else {
    fmt::print("{} to {} {} ({})\n", to_string(result.signal),
               run.options.process_group ? "the process group of" : "process", result.victim->pid,
               printable(result.victim->comm));
  }
}

}  // namespace

int run_earlyoom(const Options& options, const EarlyoomCommand& command) {
  text::Findings findings;
  if (command.compat != "1.7" && command.compat != "1.9") {
    findings.errors.push_back(
        {{"--compat", std::nullopt}, "expected 1.7 or 1.9, found '" + command.compat + "'"});
    return refuse(options, findings);
  }
  if (command.version) {
    fmt::print("earlyoom {}, as forestall {} reads its options\n", command.compat,
               FORESTALL_VERSION);
    return kExitOk;
  }
  if (command.meminfo.empty() || command.processes.empty()) {
    const char* missing = command.meminfo.empty() ? "--meminfo" : "--processes";
    findings.errors.push_back({{missing, std::nullopt}, "required"});
    return refuse(options, findings);
  }
  const EarlyoomRun run = read_earlyoom_run(command, findings);
  if (!findings.errors.empty()) return refuse(options, findings);
  for (const std::string& each : text::format_each(findings.warnings)) {
    fmt::print(stderr, "warning: {}\n", printable_lines(each));
  }
  const EarlyoomResult result = earlyoom_result(run);
  if (options.output == OutputFormat::json) {
    print_earlyoom_json(command, run, result, findings.warnings);
  } else {
    print_earlyoom_text(run, result);
  }
  return kExitOk;
}

}  // namespace forestall::cli
