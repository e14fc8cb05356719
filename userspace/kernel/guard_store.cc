// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/parse.h"
#include "bpf/abi/guard.h"
#include "kernel/guard_turn.h"

namespace forestall::kernel {
namespace {

constexpr std::string_view kTurn = "turn";
// Objects that hold a guard's programs, besides the map of its clocks.
constexpr std::array<std::string_view, 3> kLinks{"memcg-reclaim", "direct-reclaim", "charges"};

// Invalid: there is none, or it is that of a build whose guards end only with their objects.
UniqueFd readable_turn(const GuardStore& store) {
  UniqueFd turn = store.turn();
  const bool readable =
      turn && is_guard_object(kTurnObject, turn.get()) && is_readable_turn(turn.get());
  return readable ? std::move(turn) : UniqueFd();
}

// The number of the last guard.
std::uint32_t last_of(const std::vector<std::string>& names) {
  std::uint32_t last = 0;
  for (const std::string& name : names) {
    if (const auto object = parse_guard_object(name)) last = std::max(last, object->number);
  }
  return last;
}

}  // namespace

Result<DroppedGuards> drop_former_guards(GuardStore& store) {
  const std::vector<std::string> names = TRY(store.names());
  const UniqueFd turn = readable_turn(store);
  if (turn) {
    const auto unused = require_no_agent(turn.get());
    if (!unused && unused.error().code == EBUSY) return unused.error();
  }
  const auto ended = turn ? end_turn(turn.get(), last_of(names)) : Result<void>();
  const auto killed = turn ? last_kill(turn.get(), SystemClock().now()) : SystemClock().now();
  DroppedGuards dropped;
  for (const std::string& name : names) {
    if (!parse_guard_object(name)) continue;
    TRY(store.drop(name));
    ++dropped.objects;
  }
  TRY(ended);
  if (dropped.objects > 0) dropped.killed = killed;
  return dropped;
}

std::string bpf_object_kind(int fd) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  constexpr std::string_view kPrefix = "anon_inode:";
  if (length <= 0) return {};
  std::string_view text(target.data(), static_cast<std::size_t>(length));
  if (!text.starts_with(kPrefix)) return {};
  text.remove_prefix(kPrefix.size());
  // Some kernels print the name in brackets.
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return std::string(text.starts_with("bpf") ? text : "");
}

std::optional<GuardObjectName> parse_guard_object(std::string_view name) {
  if (name == kTurnObject) return GuardObjectName{0, 0, std::string(kTurn)};
  if (next_field(name, '-') != "guard") return std::nullopt;
  const auto number = parse_u64(next_field(name, '-'));
  const auto layout = parse_u64(next_field(name, '-'));
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (!number || !layout || *number == 0 || *number > kMax || *layout > kMax) return std::nullopt;
  const bool known =
      name == "clocks" || name == "ring" || std::ranges::find(kLinks, name) != kLinks.end();
  if (!known) return std::nullopt;
  return GuardObjectName{static_cast<std::uint32_t>(*number), static_cast<std::uint32_t>(*layout),
                         std::string(name)};
}

bool is_guard_object(std::string_view name, int fd) {
  const auto parsed = parse_guard_object(name);
  if (std::ranges::find(kLinks, parsed->object) != kLinks.end()) {
    const std::string kind = bpf_object_kind(fd);
    return kind == "bpf_link" || kind == "bpf-link";
  }
  const auto info = map_info(fd);
  if (!info) return false;
  const std::string_view found(info->name);
  if (parsed->object == "ring") return info->type == BPF_MAP_TYPE_RINGBUF && found == "ring";
  return info->type == BPF_MAP_TYPE_ARRAY &&
         found == (parsed->object == kTurn ? "guard_turn" : "guard_clocks");
}

}  // namespace forestall::kernel
