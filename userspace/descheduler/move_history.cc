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

Result<rebalance::Move> read_move(const text::JsonValue& value) {
  rebalance::Move move;
  const text::JsonValue owner = TRY(value.at("owner"));
  const text::JsonValue node = TRY(value.at("node"));
  move.owner = std::string(TRY(owner.string()));
  move.node = std::string(TRY(node.string()));
  move.pod_namespace = TRY(value.text("namespace"));
  move.pod = TRY(value.text("pod"));
  const text::JsonValue time = TRY(value.at("time"));
  const std::string_view written = TRY(time.string());
  const auto parsed = intake::parse_wall_time(written);
  if (!parsed) return time.wrong(fmt::format("expected a time (RFC 3339), found '{}'", written));
  move.time_ns = *parsed;
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

Result<rebalance::MoveHistory> parse_move_history(std::string_view text) {
  const text::JsonDocument document = TRY(text::JsonDocument::parse(text));
  const text::JsonValue root = document.root();
  const auto nested = TRY(root.find("history"));
  const text::JsonValue& history = nested ? *nested : root;
  const text::JsonValue list = TRY(history.at("moves"));
  rebalance::MoveHistory moves;
  const auto add_move = [&](const text::JsonValue& item) -> Result<void> {
    moves.push_back(TRY(read_move(item)));
    return {};
  };
  TRY(list.each(add_move));
  return moves;
}

}  // namespace forestall::descheduler
