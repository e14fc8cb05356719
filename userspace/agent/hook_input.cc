// SPDX-License-Identifier: Apache-2.0
#include "agent/hook_input.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "messages/convert.h"
#include "messages/json.h"
#include "text/json_writer.h"

namespace forestall::agent {
namespace {

constexpr std::int64_t kInputVersion = 1;

std::string record_json(const Record& record) {
  Record shown;
  shown.wall_time_ns = record.wall_time_ns;
  shown.stages = record.stages;
  shown.observation = record.observation;
  // Of thousands of cgroups at worst; the victim's is in the input.
  shown.observation.rules.reset();
  shown.observation.workloads.reset();
  shown.decision = record.decision;
  shown.decision.considered.clear();
  shown.decision.evictions.clear();
  return messages::to_json(messages::to_proto(shown), messages::JsonStyle::line);
}

void write_victim(const Record& record, const std::string& path, text::JsonWriter& out) {
  const rulesets::Cgroup* cgroup =
      record.observation.rules ? record.observation.rules->find(path) : nullptr;
  out.key("victim");
  out.begin_object();
  out.member("cgroup", path);
  out.member("cgroupId", cgroup == nullptr ? std::uint64_t{0} : cgroup->id);
  out.key("workload");
  const auto& workloads = record.observation.workloads;
  const WorkloadSample* found = nullptr;
  if (workloads && cgroup != nullptr) {
    const auto known = std::ranges::find_if(*workloads, [&](const WorkloadSample& each) {
      return each.workload.cgroup.inode == cgroup->id;
    });
    if (known != workloads->end()) found = &*known;
  }
  if (found == nullptr) {
    out.null();
  } else {
    out.raw(messages::to_json(messages::to_proto(*found), messages::JsonStyle::line));
  }
  out.end_object();
}

}  // namespace

std::string hook_input(const Record& record, const RuleReport& ruleset,
                       const RuleActionReport& action, const RuleAttempt& attempt) {
  const Duration waits = attempt.hook_until - record.observation.at;
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("version", kInputVersion);
  out.member("hook", attempt.hook);
  out.member("run", attempt.hook_run);
  out.member("ruleset", ruleset.name);
  out.member("detectors", ruleset.group.value_or(""));
  out.member("action", action.name);
  out.member("waitsMs", std::int64_t{std::chrono::floor<std::chrono::milliseconds>(waits).count()});
  write_victim(record, attempt.cgroup, out);
  out.key("record");
  out.raw(record_json(record));
  out.end_object();
  return std::move(out).take() + "\n";
}

}  // namespace forestall::agent
