// SPDX-License-Identifier: Apache-2.0
// Whether the guard stays in force when the agent ends (--keep-guard).
//
// systemd refuses a descriptor silently. From 254 on it passes FileDescriptorStoreMax= in the
// environment ($FDSTORE); otherwise a thread reads it over D-Bus, and again until systemd answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "clients/descriptor_store_limit.h"
#include "exports/log.h"
#include "kernel/guard.h"

namespace forestall::daemon {

enum class GuardKeeping : std::uint8_t { kept, not_kept, unknown };

struct GuardKeepingState {
  GuardKeeping keeping = GuardKeeping::unknown;
  std::string reason;  // for people

  friend bool operator==(const GuardKeepingState&, const GuardKeepingState&) = default;
};

// Of a guard in systemd's store, which must have room for the next agent's guard, too.
[[nodiscard]] GuardKeepingState judge_descriptor_store(
    const Result<std::optional<clients::DescriptorStoreLimit>>& answer);

class KeptGuard {
 public:
  static constexpr Duration kRetry = std::chrono::seconds(30);

  // `store` null: there is none. `log` outlives it; `guard` and `store` are used by the call only.
  // Empty `bus_address`: the system bus.
  static std::unique_ptr<KeptGuard> of(const kernel::GuardPrograms& guard,
                                       const kernel::GuardStore* store, exports::Log& log,
                                       const std::string& bus_address = {});
  // Reads the settings of systemd.
  static std::unique_ptr<KeptGuard> of_systemd(exports::Log& log, const std::string& bus_address,
                                               Duration retry = kRetry);

  // Any thread but the loop's.
  [[nodiscard]] GuardKeepingState state() const;
  // Whether the store keeps a part of the guard at most. Any thread.
  [[nodiscard]] const std::atomic<bool>& refused() const { return refused_; }

 private:
  explicit KeptGuard(exports::Log& log) : log_(log) {}
  void set(GuardKeepingState state);
  void read(const std::string& bus_address, Duration retry);

  exports::Log& log_;
  mutable std::mutex mutex_;
  GuardKeepingState state_;  // guarded by mutex_
  std::atomic<bool> refused_{false};
  std::unique_ptr<base::JobThread>
      reads_;  // last: it uses the above; null: there is nothing to read
};

}  // namespace forestall::daemon
