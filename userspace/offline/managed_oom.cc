// SPDX-License-Identifier: Apache-2.0
// `forestall check-config --managed-oom`: what systemd-oomd would monitor after given messages, and
// the order in which it would kill given candidates.
#include "offline/managed_oom.h"

#include <fmt/format.h>

#include <utility>

#include "base/parse.h"
#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/rules_input.h"
#include "intake/oomd_conf.h"
#include "intake/systemd_values.h"
#include "offline/commands.h"
#include "offline/refusal.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

using rulesets::ManagedCandidate;
using rulesets::ManagedRanking;
using text::JsonOutput;

// Reads a file, or adds a finding.
std::optional<std::string> managed_oom_file(const std::string& path, text::Findings& findings) {
  auto text = read_input(path);
  if (text) return *std::move(text);
  findings.errors.push_back(finding_in(path, text.error()));
  return std::nullopt;
}

std::optional<int> systemd_version(const ManagedOomOptions& options, text::Findings& findings) {
  if (options.systemd_version.empty()) return ManagedOomInput().systemd_version;
  const auto version = parse_u64(options.systemd_version);
  if (version && *version >= 247 && *version < 1000) return static_cast<int>(*version);
  findings.errors.push_back(
      {{"--systemd-version", std::nullopt},
       "expected a version from 247 on, such as 257, found '" + options.systemd_version + "'"});
  return std::nullopt;
}

std::string span_text(std::chrono::microseconds span) {
  if (span == intake::kInfiniteSpan) return "infinity";
  return fmt::format("{:g} s", static_cast<double>(span.count()) / 1e6);
}

// Seconds; a whole number if it is one.
JsonOutput span_json(std::chrono::microseconds span) {
  if (span == intake::kInfiniteSpan) return "infinity";
  const std::int64_t us = span.count();
  if (us % 1'000'000 == 0) return us / 1'000'000;
  return static_cast<double>(us) / 1e6;
}

// What the rules of systemd-oomd do not reach, although its manual suggests it.
std::vector<std::string> without_effect(const rulesets::ManagedOomRules& rules) {
  std::vector<std::string> notes;
  if (rules.pressure.contains("/")) {
    notes.emplace_back(
        "/: ManagedOOMMemoryPressure=kill of the root never kills: systemd-oomd reads no pgscan "
        "there, so it detects no reclaim; set it on slices below");
  }
  return notes;
}

struct Ranked {
  ManagedRanking by = ManagedRanking::swap;
  std::vector<ManagedCandidate> candidates;
};

JsonOutput managed_ranking_json(const Ranked& ranked) {
  JsonOutput list = JsonOutput::list();
  for (const ManagedCandidate& each : ranked.candidates) {
    JsonOutput item = JsonOutput::object();
    item.set("cgroup", each.cgroup).set("preference", to_string(each.preference));
    if (ranked.by == ManagedRanking::swap) {
      item.set("memory.swap.current", each.swap);
    } else {
      item.set("pgscanRate", each.pgscan_rate()).set("memory.current", each.usage);
    }
    list.add(std::move(item));
  }
  return list;
}

JsonOutput strings_json(const std::vector<std::string>& strings) {
  JsonOutput list = JsonOutput::list();
  for (const std::string& each : strings) list.add(each);
  return list;
}

void print_managed_json(const ManagedOomInput& input, const std::optional<Ranked>& ranked,
                        const std::vector<text::Finding>& warnings) {
  JsonOutput conf = JsonOutput::object();
  conf.set("SwapUsedLimit", input.conf.swap_used_limit)
      .set("DefaultMemoryPressureLimit", input.conf.pressure_limit)
      .set("DefaultMemoryPressureDurationSec", span_json(input.conf.pressure_duration));
  JsonOutput swap = JsonOutput::list();
  for (const std::string& path : input.rules.swap) swap.add(path);
  JsonOutput pressure = JsonOutput::list();
  for (const auto& [path, rule] : input.rules.pressure) {
    JsonOutput item = JsonOutput::object();
    item.set("path", path)
        .set("limitPermyriad", rule.limit_permyriad)
        .set("durationSeconds", span_json(rule.duration));
    pressure.add(std::move(item));
  }
  JsonOutput report = JsonOutput::object();
  report.set("conf", std::move(conf))
      .set("swap", std::move(swap))
      .set("pressure", std::move(pressure))
      .set("refused", strings_json(input.refused))
      .set("differences", strings_json(without_effect(input.rules)))
      .set("warnings", strings_json(text::format_each(warnings)));
  if (ranked) report.set("ranking", managed_ranking_json(*ranked));
  fmt::print("{}", report.pretty());
}

void print_managed_text(const ManagedOomInput& input, const std::optional<Ranked>& ranked) {
  fmt::print("swap: kill when memory and swap are used above {:g} %\n",
             static_cast<double>(input.conf.swap_used_limit) / 100);
  for (const std::string& path : input.rules.swap) fmt::print("  {}\n", printable(path));
  fmt::print("memory pressure:\n");
  for (const auto& [path, rule] : input.rules.pressure) {
    fmt::print("  {} above {:g} % for {}\n", printable(path),
               static_cast<double>(rule.limit_permyriad) / 100, span_text(rule.duration));
  }
  for (const std::string& each : input.refused) fmt::print("refused: {}\n", printable(each));
  for (const std::string& each : without_effect(input.rules)) fmt::print("note: {}\n", each);
  if (!ranked) return;
  tables::Table table({"killed in this order", "preference", "swap", "pgscan rate", "memory"});
  for (const ManagedCandidate& each : ranked->candidates) {
    table.add({each.cgroup, std::string(to_string(each.preference)), fmt::format("{}", each.swap),
               fmt::format("{}", each.pgscan_rate()), fmt::format("{}", each.usage)});
  }
  table.print();
}

std::optional<Ranked> read_ranking(const ManagedOomOptions& options, text::Findings& findings) {
  if (options.rank.empty()) return std::nullopt;
  if (options.rank != "swap" && options.rank != "pgscan") {
    findings.errors.push_back(
        {{"--rank", std::nullopt}, "expected swap or pgscan, found '" + options.rank + "'"});
    return std::nullopt;
  }
  if (options.candidates.empty()) {
    findings.errors.push_back({{"--candidates", std::nullopt}, "required with --rank"});
    return std::nullopt;
  }
  const auto text = managed_oom_file(options.candidates, findings);
  if (!text) return std::nullopt;
  Ranked ranked;
  ranked.by = options.rank == "swap" ? ManagedRanking::swap : ManagedRanking::pgscan;
  ranked.candidates =
      rank_managed(intake::read_managed_candidates(*text, options.candidates, findings), ranked.by);
  return ranked;
}

}  // namespace

ManagedOomInput read_managed_oom(const ManagedOomOptions& options, text::Findings& findings) {
  ManagedOomInput input;
  const auto version = systemd_version(options, findings);
  if (!version) return input;
  input.systemd_version = *version;
  if (!options.oomd_conf.empty()) {
    if (const auto text = managed_oom_file(options.oomd_conf, findings)) {
      input.conf = intake::read_oomd_conf(*text, options.oomd_conf, *version, findings);
    }
  }
  intake::CgroupOwners owners;
  if (!options.owners.empty()) {
    if (const auto text = managed_oom_file(options.owners, findings)) {
      owners = intake::read_cgroup_owners(*text, options.owners, findings);
    }
  }
  if (options.managed_oom.empty()) return input;
  const auto text = managed_oom_file(options.managed_oom, findings);
  if (!text) return input;
  const auto messages =
      intake::read_managed_oom_messages(*text, options.managed_oom, *version, findings);
  for (const intake::ManagedOomMessage& message : messages) {
    for (const std::string& each :
         intake::apply_managed_oom(message, input.conf, owners, input.rules)) {
      input.refused.push_back(fmt::format("{}:{}: {}", options.managed_oom, message.line, each));
    }
  }
  return input;
}

int run_check_managed_oom(const Options& options, const ManagedOomOptions& managed) {
  text::Findings findings;
  const ManagedOomInput input = read_managed_oom(managed, findings);
  const auto ranked = read_ranking(managed, findings);
  if (!findings.errors.empty()) return refuse(options, findings);
  for (const std::string& each : text::format_each(findings.warnings)) {
    fmt::print(stderr, "warning: {}\n", printable_lines(each));
  }
  if (options.output == OutputFormat::json) {
    print_managed_json(input, ranked, findings.warnings);
  } else {
    print_managed_text(input, ranked);
  }
  return kExitOk;
}

}  // namespace forestall::cli
