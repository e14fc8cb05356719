// SPDX-License-Identifier: Apache-2.0
// Keeps descriptors of the guard's BPF objects while no agent runs. The programs of a guard end
// with the last reference to them, and a timer with the last descriptor or pin of its map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

struct KeptObject {
  std::string name;
  UniqueFd fd;
};

// Objects of one guard, with the turn.
inline constexpr std::size_t kGuardObjectsMax = 6;
// Objects of two guards, which share the turn, while the next one takes over.
inline constexpr std::size_t kTakeOverObjectsMax = 2 * kGuardObjectsMax - 1;
// The turn's (bpf/abi/guard.h).
constexpr std::string_view kTurnObject = "guard-turn";
// A name in a store: "guard-turn", or "guard-NUMBER-LAYOUT-OBJECT".
struct GuardObjectName {
  std::uint32_t number = 0;  // of the guard; 0: the turn
  std::uint32_t layout = 0;  // ABI_GUARD_REPORTS of its build
  std::string object;        // "turn", "clocks", "ring", or a link
};
[[nodiscard]] std::optional<GuardObjectName> parse_guard_object(std::string_view name);
// Whether the descriptor is an object of that name. REQUIRES: the name can be parsed.
[[nodiscard]] bool is_guard_object(std::string_view name, int fd);

struct StoreRoom {
  // Objects that it takes. Nullopt: not known; what it does not take is refused silently.
  std::optional<std::size_t> max;
};

// Thread rule: one thread at a time.
class GuardStore {
 public:
  GuardStore() = default;
  GuardStore(const GuardStore&) = delete;
  GuardStore& operator=(const GuardStore&) = delete;
  virtual ~GuardStore() = default;

  // All objects that are kept. An error refuses the store as a whole: another program or user may
  // have written to it.
  [[nodiscard]] virtual Result<std::vector<KeptObject>> kept() = 0;
  // REQUIRES: kept() without an error, and no object of this name.
  [[nodiscard]] virtual Result<void> keep(const std::string& name, int fd) = 0;
  [[nodiscard]] virtual Result<void> drop(const std::string& name) = 0;
  // The names of all that is kept.
  [[nodiscard]] virtual Result<std::vector<std::string>> names() const = 0;
  [[nodiscard]] virtual StoreRoom room() const = 0;
  // What keeps the objects, for people.
  [[nodiscard]] virtual std::string place() const = 0;
  // What is kept under kTurnObject; invalid: nothing is, or it could not be opened.
  [[nodiscard]] virtual UniqueFd turn() const = 0;
};

struct DroppedGuards {
  std::size_t objects = 0;
  // Their last kill; its memory may not be back. Nullopt: there was none.
  std::optional<MonotonicTime> killed;
};

// Ends former guards: drops everything under the name of a guard's object, also if kept() refuses
// the store or was called before. No list of these guards fires from the start of the call on: a
// service manager may be slow to drop them. EBUSY: they are of an agent that runs, and stay.
[[nodiscard]] Result<DroppedGuards> drop_former_guards(GuardStore& store);

// The kind of a descriptor, from the name that procfs shows: "bpf-map", "bpf_link"; empty: it is
// not a BPF object.
[[nodiscard]] std::string bpf_object_kind(int fd);

}  // namespace forestall::kernel
