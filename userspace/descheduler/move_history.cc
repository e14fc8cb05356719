// SPDX-License-Identifier: Apache-2.0
#include "descheduler/move_history.h"

#include <fmt/format.h>

#include "intake/wall_time.h"
#include "text/json_value.h"

namespace forestall::descheduler {
namespace {

// 0 if it is missing.
Result<rebalance::Nanos> read_amount(const text::JsonValue& value, std::string_view key,
                                     std::string_view resource) {
  const auto found = TRY(value.find(key));
  if (!found) return rebalance::Nanos{0};
  const std::int64_t count = TRY(found->integer());
  if (count < 0) return found->wrong(fmt::format("expected an amount, found {}", count));
  return rebalance::nanos_of(resource, count);
}

Result<std::int64_t> read_time(const text::JsonValue& value, std::string_view key) {
  const text::JsonValue time = TRY(value.at(key));
  const std::string_view written = TRY(time.string());
  const auto parsed = intake::parse_wall_time(written);
  if (!parsed) return time.wrong(fmt::format("expected a time (RFC 3339), found '{}'", written));
  return *parsed;
}

Result<std::string> read_name(const text::JsonValue& value, std::string_view key) {
  const text::JsonValue name = TRY(value.at(key));
  return std::string(TRY(name.string()));
}

Result<rebalance::WaitingMove> read_waiting(const text::JsonValue& value) {
  rebalance::WaitingMove move;
  move.profile = TRY(read_name(value, "profile"));
  move.plugin = TRY(read_name(value, "plugin"));
  move.workload = TRY(read_name(value, "workload"));
  move.pod_namespace = TRY(value.text("namespace"));
  move.pod = TRY(value.text("pod"));
  move.node = TRY(value.text("node"));
  const text::JsonValue limit = TRY(value.at("limit"));
  const std::string_view written = TRY(limit.string());
  const auto parsed = rebalance::parse_eviction_limit(written);
  if (!parsed) {
    return limit.wrong(
        fmt::format("expected 'total', 'node', 'namespace' or 'budget', found '{}'", written));
  }
  move.limit = *parsed;
  move.since_ns = TRY(read_time(value, "since"));
  return move;
}

Result<rebalance::Move> read_move(const text::JsonValue& value) {
  rebalance::Move move;
  move.owner = TRY(read_name(value, "owner"));
  move.node = TRY(read_name(value, "node"));
  // The memory of moves is by UID and namespace: without it the move would protect no pod.
  const text::JsonValue pod_namespace = TRY(value.at("namespace"));
  move.pod_namespace = TRY(pod_namespace.string());
  if (move.pod_namespace.empty()) return pod_namespace.wrong("expected a namespace, found ''");
  move.pod = TRY(value.text("pod"));
  move.time_ns = TRY(read_time(value, "time"));
  move.destination = TRY(value.text("destination"));
  move.cpu = TRY(read_amount(value, "cpu", rebalance::kCpu));
  move.memory = TRY(read_amount(value, "memory", rebalance::kMemory));
  move.working_set = TRY(read_amount(value, "workingSet", rebalance::kMemory));
  move.cpu_usage = TRY(read_amount(value, "cpuUsage", rebalance::kCpu));
  move.growth = TRY(read_amount(value, "growthPerSecond", rebalance::kMemory));
  if (const auto existed = TRY(value.find("existed"))) {
    const auto add_uid = [&](const text::JsonValue& uid) -> Result<void> {
      move.existed.emplace_back(TRY(uid.string()));
      return {};
    };
    TRY(existed->each(add_uid));
  }
  return move;
}

}  // namespace

Result<rebalance::PlanHistory> parse_plan_history(std::string_view text) {
  const text::JsonDocument document = TRY(text::JsonDocument::parse(text));
  const text::JsonValue root = document.root();
  const auto nested = TRY(root.find("history"));
  const text::JsonValue& history = nested ? *nested : root;
  const text::JsonValue list = TRY(history.at("moves"));
  rebalance::PlanHistory plans;
  const auto add_move = [&](const text::JsonValue& item) -> Result<void> {
    plans.moves.push_back(TRY(read_move(item)));
    return {};
  };
  TRY(list.each(add_move));
  const auto add_waiting = [&](const text::JsonValue& item) -> Result<void> {
    plans.waiting.push_back(TRY(read_waiting(item)));
    return {};
  };
  // Older versions do not write it.
  if (const auto waiting = TRY(history.find("waiting"))) TRY(waiting->each(add_waiting));
  return plans;
}

}  // namespace forestall::descheduler
