// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_reload.h"

#include <string>
#include <string_view>

#include "daemon/daemon_parts.h"

namespace forestall::daemon {
namespace {

void warn(exports::Log& log, std::string_view setting) {
  const std::string text =
      std::string(setting) +
      " changed; the agent keeps the value from its start; restart the agent to "
      "apply the new one";
  log.write(exports::LogLevel::warning, exports::LogLine("config").field("warning", text));
}

template <class Value>
void keep(Value& next, const Value& started, exports::Log& log, std::string_view setting) {
  if (next == started) return;
  warn(log, setting);
  next = started;
}

}  // namespace

Config reloaded_config(Config next, const Config& started, exports::Log& log) {
  if (next.disabled != started.disabled) warn(log, "disableFeatures");
  keep(next.filesystems.runtime, started.filesystems.runtime, log, "filesystems.runtime");
  keep(next.metrics_address, started.metrics_address, log, "metricsAddress");
  keep(next.api_socket, started.api_socket, log, "apiSocket");
  if (next.api_uids != started.api_uids || next.api_gids != started.api_gids ||
      next.api_pod_writers != started.api_pod_writers) {
    warn(log, "apiUsers");
    next.api_uids = started.api_uids;
    next.api_gids = started.api_gids;
    next.api_pod_writers = started.api_pod_writers;
  }
  keep(next.recording, started.recording, log, "recording");
  if (throttles(next) && !throttles(started)) warn(log, "ownLimit");
  // Turning the guard off takes effect at once; it is loaded at the start only.
  if (next.guard) keep(next.guard, started.guard, log, "guard");
  // Only the kernel's ranking needs parts that are built at the start.
  if (next.ranking == Ranking::kernel) keep(next.ranking, started.ranking, log, "ranking");
  return next;
}

}  // namespace forestall::daemon
