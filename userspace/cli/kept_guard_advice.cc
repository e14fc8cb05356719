// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_guard_advice.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "daemon/kept_guard.h"
#include "kernel/guard_store.h"

namespace forestall::cli {

std::optional<std::string> kept_guard_advice(
    const Result<std::optional<clients::DescriptorStoreLimit>>& limit) {
  if (!limit) {
    return fmt::format(
        "guard: unknown whether systemd keeps it when forestall.service ends, because {}.",
        printable(limit.error().text()));
  }
  if (!*limit) return std::nullopt;
  const auto state =
      daemon::judge_descriptor_store(limit, kernel::kGuardObjectsMax, /*gave_back=*/false);
  if (state.keeping == daemon::GuardKeeping::kept) return std::nullopt;
  return fmt::format("guard: it ends with the agent, because {}.", printable(state.reason));
}

}  // namespace forestall::cli
