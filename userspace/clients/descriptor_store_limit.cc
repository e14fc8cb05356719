// SPDX-License-Identifier: Apache-2.0
#include "clients/descriptor_store_limit.h"

#include <fmt/format.h>
#include <systemd/sd-bus.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "clients/bus_connection.h"

namespace forestall::clients {
namespace {

constexpr const char* kPeer = "org.freedesktop.systemd1";
constexpr const char* kPeerPath = "/org/freedesktop/systemd1";
constexpr const char* kPeerManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kPeerUnits = "/org/freedesktop/systemd1/unit";
constexpr const char* kUnitInterface = "org.freedesktop.systemd1.Unit";
constexpr const char* kServiceInterface = "org.freedesktop.systemd1.Service";
constexpr const char* kInNoUnit = "org.freedesktop.systemd1.NoUnitForPID";

// The error of one call.
class CallError {
 public:
  CallError() = default;
  CallError(const CallError&) = delete;
  CallError& operator=(const CallError&) = delete;
  ~CallError() { sd_bus_error_free(&error_); }

  sd_bus_error* out() { return &error_; }
  [[nodiscard]] bool is(const char* name) const { return sd_bus_error_has_name(&error_, name) > 0; }
  [[nodiscard]] Error error(int code, const char* what) const {
    if (error_.message == nullptr) return Error{-code, what};
    return Error{-code, fmt::format("{}: {}", what, error_.message)};
  }

 private:
  sd_bus_error error_ = SD_BUS_ERROR_NULL;
};

// Of all calls together: the agent's end waits for them.
class Deadline {
 public:
  Deadline(const Clock& clock, Duration timeout) : clock_(clock), at_(clock.now() + timeout) {}
  // What is left becomes the timeout of the next call.
  Result<void> apply(sd_bus* bus) const {
    const Duration left = at_ - clock_.now();
    if (left < std::chrono::microseconds(1))
      return Error{ETIMEDOUT, "D-Bus did not answer in time"};
    const int code = sd_bus_set_method_call_timeout(
        bus, static_cast<std::uint64_t>(left / std::chrono::microseconds(1)));
    if (code < 0) return Error{-code, "sd_bus_set_method_call_timeout"};
    return {};
  }

 private:
  const Clock& clock_;
  const MonotonicTime at_;
};

Result<std::string> read_text(sd_bus* bus, const Deadline& deadline, const char* path,
                              const char* interface, const char* property) {
  TRY(deadline.apply(bus));
  CallError problem;
  char* raw = nullptr;
  const int code =
      sd_bus_get_property_string(bus, kPeer, path, interface, property, problem.out(), &raw);
  if (code < 0) return problem.error(code, property);
  std::string value(raw);
  std::free(raw);
  return value;
}

// Nullopt: this process is in no unit.
Result<std::optional<std::string>> own_unit_path(sd_bus* bus, const Deadline& deadline) {
  TRY(deadline.apply(bus));
  CallError problem;
  sd_bus_message* raw = nullptr;
  const int code = sd_bus_call_method(bus, kPeer, kPeerPath, kPeerManager, "GetUnitByPID",
                                      problem.out(), &raw, "u", 0U);  // 0: of the caller
  if (problem.is(kInNoUnit)) return std::optional<std::string>();
  if (code < 0) return problem.error(code, "GetUnitByPID");
  const std::unique_ptr<sd_bus_message, decltype(&sd_bus_message_unref)> reply(
      raw, sd_bus_message_unref);
  const char* path = nullptr;
  const int read = sd_bus_message_read(reply.get(), "o", &path);
  if (read < 0) return Error{-read, "GetUnitByPID"};
  return std::optional<std::string>(path);
}

Result<std::string> path_of_unit(const std::string& unit) {
  char* raw = nullptr;
  const int code = sd_bus_path_encode(kPeerUnits, unit.c_str(), &raw);
  if (code < 0) return Error{-code, "make the path of " + unit};
  std::string path(raw);
  std::free(raw);
  return path;
}

std::uint32_t leading_number(std::string_view text) {
  std::uint32_t number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || number > 100'000) break;
    number = number * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return number;
}

}  // namespace

Result<std::optional<DescriptorStoreLimit>> read_descriptor_store_limit(const std::string& address,
                                                                        const std::string& unit,
                                                                        Duration timeout,
                                                                        const Clock& clock) {
  using Found = std::optional<DescriptorStoreLimit>;
  const Deadline deadline(clock, timeout);
  const BusConnection bus = TRY(connect_to_bus(address, timeout));
  std::optional<std::string> path;
  if (unit.empty()) {
    path = TRY(own_unit_path(bus.get(), deadline));
    if (!path) return Found();
  } else {
    path = TRY(path_of_unit(unit));
    // systemd answers for any name.
    if (TRY(read_text(bus.get(), deadline, path->c_str(), kUnitInterface, "LoadState")) !=
        "loaded") {
      return Found();
    }
  }
  DescriptorStoreLimit limit;
  limit.unit = TRY(read_text(bus.get(), deadline, path->c_str(), kUnitInterface, "Id"));
  if (!limit.unit.ends_with(".service")) return Found();
  TRY(deadline.apply(bus.get()));
  CallError problem;
  const int code =
      sd_bus_get_property_trivial(bus.get(), kPeer, path->c_str(), kServiceInterface,
                                  "FileDescriptorStoreMax", problem.out(), 'u', &limit.max);
  if (code < 0) return problem.error(code, "FileDescriptorStoreMax");
  limit.version =
      leading_number(TRY(read_text(bus.get(), deadline, kPeerPath, kPeerManager, "Version")));
  return Found(std::move(limit));
}

}  // namespace forestall::clients
