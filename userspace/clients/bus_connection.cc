// SPDX-License-Identifier: Apache-2.0
#include "clients/bus_connection.h"

#include <poll.h>
#include <systemd/sd-bus.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace forestall::clients {
namespace {

Error connect_error(int code, const std::string& what) {
  return Error{-code, what};
}

// sd-bus itself would wait for 90 s.
Result<void> wait_until_ready(sd_bus* bus, Duration timeout) {
  const MonotonicTime deadline = SystemClock().now() + timeout;
  for (;;) {
    const int ready = sd_bus_is_ready(bus);
    if (ready > 0) return {};
    const int done = ready < 0 ? ready : sd_bus_process(bus, nullptr);
    if (done < 0) return connect_error(done, "connect to D-Bus");
    if (done > 0) continue;
    const Duration left = deadline - SystemClock().now();
    if (left <= Duration{0}) return Error{ETIMEDOUT, "D-Bus did not answer"};
    pollfd polled{sd_bus_get_fd(bus), bus_events(bus), 0};
    ::poll(&polled, 1, static_cast<int>(left / std::chrono::milliseconds(1)) + 1);
  }
}

}  // namespace

void BusCloser::operator()(sd_bus* bus) const {
  sd_bus_close_unref(bus);
}

Result<BusConnection> open_bus(const std::string& address) {
  sd_bus* raw = nullptr;
  int code = address.empty() ? sd_bus_open_system(&raw) : sd_bus_new(&raw);
  if (code < 0) {
    return connect_error(code,
                         address.empty() ? "connect to the system bus of D-Bus" : "sd_bus_new");
  }
  BusConnection bus(raw);
  if (address.empty()) return bus;
  code = sd_bus_set_address(raw, address.c_str());
  if (code >= 0) code = sd_bus_set_bus_client(raw, 1);
  if (code >= 0) code = sd_bus_start(raw);
  if (code < 0) return connect_error(code, "connect to " + address);
  return bus;
}

Result<BusConnection> connect_to_bus(const std::string& address, Duration timeout) {
  BusConnection bus = TRY(open_bus(address));
  TRY(wait_until_ready(bus.get(), timeout));
  const int code = sd_bus_set_method_call_timeout(
      bus.get(), static_cast<std::uint64_t>(timeout / std::chrono::microseconds(1)));
  if (code < 0) return connect_error(code, "sd_bus_set_method_call_timeout");
  return bus;
}

short bus_events(sd_bus* bus) {
  return static_cast<short>(std::max(sd_bus_get_events(bus), 0));
}

}  // namespace forestall::clients
