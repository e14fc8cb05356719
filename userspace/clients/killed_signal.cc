// SPDX-License-Identifier: Apache-2.0
#include "clients/killed_signal.h"

#include <systemd/sd-bus.h>

#include <cerrno>
#include <utility>

namespace forestall::clients {
namespace {

constexpr const char* kOomName = "org.freedesktop.oom1";
constexpr const char* kOomPath = "/org/freedesktop/oom1";
constexpr const char* kOomManager = "org.freedesktop.oom1.Manager";
// Any local user can send the agent messages; the others are taken at the next call.
constexpr int kMessagesMax = 256;

std::string refusal_of_name(int code) {
  if (code == -EEXIST) return std::string("another program has the name ") + kOomName;
  if (code == -EACCES || code == -EPERM) {
    return std::string("the policy of D-Bus does not let the agent own ") + kOomName +
           "; install forestall-oom1.conf";
  }
  return std::string("own ") + kOomName;
}

}  // namespace

Result<std::unique_ptr<KilledSignal>> KilledSignal::take_name(const std::string& address) {
  BusConnection bus = TRY(connect_to_bus(address, kTimeout));
  // Neither queued nor replacing another owner; and no other program may replace the agent.
  const int code = sd_bus_request_name(bus.get(), kOomName, 0);
  if (code < 0) return Error{-code, refusal_of_name(code)};
  return std::unique_ptr<KilledSignal>(new KilledSignal(std::move(bus)));
}

int KilledSignal::fd() const {
  return sd_bus_get_fd(bus_.get());
}

Result<void> KilledSignal::process() {
  int done = 1;
  for (int i = 0; done > 0 && i < kMessagesMax; ++i) done = sd_bus_process(bus_.get(), nullptr);
  if (done < 0) return Error{-done, "the connection to D-Bus was lost"};
  return {};
}

Result<void> KilledSignal::send(const std::string& cgroup, const char* reason) {
  const int code =
      sd_bus_emit_signal(bus_.get(), kOomPath, kOomManager, "Killed", "ss", cgroup.c_str(), reason);
  if (code < 0) return Error{-code, "send the signal Killed"};
  return {};
}

}  // namespace forestall::clients
