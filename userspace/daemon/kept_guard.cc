// SPDX-License-Identifier: Apache-2.0
#include "daemon/kept_guard.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

#include "exports/log_line.h"
#include "kernel/guard_store.h"
#include "kernel/scheduling.h"

namespace forestall::daemon {
namespace {

// Older ones poll what they store and remove a BPF map, which reports an error.
constexpr std::uint32_t kSystemdMin = 246;

GuardKeepingState not_kept(std::string reason) {
  return {GuardKeeping::not_kept, std::move(reason)};
}

GuardKeepingState too_small(const std::string& store) {
  return not_kept(
      fmt::format("{}, and the next agent's guard takes over with up to {} descriptors; "
                  "set it to 16",
                  store, kernel::kTakeOverObjectsMax));
}

}  // namespace

GuardKeepingState judge_descriptor_store(
    const Result<std::optional<clients::DescriptorStoreLimit>>& answer) {
  if (!answer.ok() || !*answer) {
    return {GuardKeeping::unknown,
            "systemd does not confirm what it stores, and " +
                (answer.ok() ? std::string("the agent is in none of its services")
                             : "its settings cannot be read: " + answer.error().text())};
  }
  const clients::DescriptorStoreLimit& limit = **answer;
  if (limit.max < kernel::kTakeOverObjectsMax) {
    return too_small(fmt::format("{} has FileDescriptorStoreMax={}", limit.unit, limit.max));
  }
  if (limit.version != 0 && limit.version < kSystemdMin) {
    return not_kept(fmt::format("systemd {} cannot keep a guard; {} and later can", limit.version,
                                kSystemdMin));
  }
  return {GuardKeeping::kept,
          fmt::format("systemd, {} has FileDescriptorStoreMax={}", limit.unit, limit.max)};
}

std::unique_ptr<KeptGuard> KeptGuard::of(const kernel::GuardPrograms& guard,
                                         const kernel::GuardStore* store, exports::Log& log,
                                         const std::string& bus_address) {
  std::unique_ptr<KeptGuard> kept(new KeptGuard(log));
  if (!guard.outlives_process()) {
    // Its problem is logged by the caller.
    kept->state_ = not_kept(store == nullptr ? "--keep-guard is not set or was refused"
                                             : guard.store_problem());
    return kept;
  }
  const kernel::StoreRoom room = store->room();
  if (!room.max) return of_systemd(log, bus_address);
  if (*room.max < kernel::kTakeOverObjectsMax) {
    kept->set(too_small(store->place()));
  } else {
    kept->state_ = {GuardKeeping::kept, store->place()};
  }
  return kept;
}

std::unique_ptr<KeptGuard> KeptGuard::of_systemd(exports::Log& log, const std::string& bus_address,
                                                 Duration retry) {
  std::unique_ptr<KeptGuard> kept(new KeptGuard(log));
  kept->state_ = {GuardKeeping::unknown, "systemd's settings are being read"};
  auto reads = base::JobThread::create(
      "kept-guard", [self = kept.get(), bus_address, retry] { self->read(bus_address, retry); });
  if (reads.ok()) {
    kept->reads_ = std::move(*reads);
    static_cast<void>(kept->reads_->start());  // it is idle
  } else {
    kept->set({GuardKeeping::unknown, reads.error().text()});
  }
  return kept;
}

void KeptGuard::read(const std::string& bus_address, Duration retry) {
  kernel::use_service_priority();
  pollfd stop{reads_->stop_fd(), POLLIN, 0};
  const auto wait = static_cast<int>(retry / std::chrono::milliseconds(1));
  do {
    set(judge_descriptor_store(clients::read_descriptor_store_limit(bus_address, {})));
  } while (state().keeping == GuardKeeping::unknown && ::poll(&stop, 1, wait) == 0);
}

GuardKeepingState KeptGuard::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void KeptGuard::set(GuardKeepingState state) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == state) return;
    state_ = state;
  }
  refused_ = state.keeping == GuardKeeping::not_kept;
  if (state.keeping == GuardKeeping::kept) return;
  log_.write(
      exports::LogLevel::warning,
      exports::LogLine("guard")
          .field("what", state.keeping == GuardKeeping::not_kept ? "not-kept" : "unconfirmed")
          .field("problem", state.reason));
}

}  // namespace forestall::daemon
