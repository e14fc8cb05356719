// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_guard_advice.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "daemon/kept_guard.h"

namespace forestall::cli {

std::optional<std::string> kept_guard_advice(
    const std::string& keep_guard,
    const Result<std::optional<clients::DescriptorStoreLimit>>& limit) {
  if (!keep_guard.empty() && keep_guard != "systemd") return std::nullopt;
  if (!limit) {
    return fmt::format(
        "guard: with `--keep-guard systemd` it is unknown whether it stays when forestall.service "
        "ends, because {}.",
        printable(limit.error().text()));
  }
  if (!*limit) return std::nullopt;
  const auto state = daemon::judge_descriptor_store(limit);
  if (state.keeping == daemon::GuardKeeping::kept) return std::nullopt;
  return fmt::format("guard: with `--keep-guard systemd` it ends with the agent, because {}.",
                     printable(state.reason));
}

}  // namespace forestall::cli
