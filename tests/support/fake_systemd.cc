// SPDX-License-Identifier: Apache-2.0
#include "support/fake_systemd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace forestall::test {
namespace {

constexpr const char* kJob = "/org/freedesktop/systemd1/job/7";
constexpr int kOtherJobs = 300;
constexpr const char* kUnits = "/org/freedesktop/systemd1/unit";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";

struct ServerDeleter {
  void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
};

void emit_removed(sd_bus* bus, const char* job, const char* unit, const char* result) {
  sd_bus_message* signal = nullptr;
  if (sd_bus_message_new_signal(bus, &signal, "/org/freedesktop/systemd1", kManager, "JobRemoved") <
      0) {
    return;
  }
  sd_bus_message_set_sender(signal, "org.freedesktop.systemd1");
  sd_bus_message_append(signal, "uoss", 7U, job, unit, result);
  sd_bus_send(bus, signal, nullptr);
  sd_bus_message_unref(signal);
}

int restart_unit(sd_bus_message* message, FakeSystemd& systemd) {
  const char* unit = nullptr;
  const char* mode = nullptr;
  if (sd_bus_message_read(message, "ss", &unit, &mode) < 0) return -EINVAL;
  systemd.add_request(std::string(unit) + " " + mode);
  sd_bus* bus = sd_bus_message_get_bus(message);
  using Answer = FakeSystemd::Answer;
  if (systemd.answer() == Answer::refuses) {
    return sd_bus_reply_method_errorf(message, "org.freedesktop.systemd1.NoSuchUnit",
                                      "Unit %s not found.", unit);
  }
  if (systemd.answer() == Answer::closes) return -ECONNRESET;
  // More than a client keeps.
  for (int i = 0; i < kOtherJobs; ++i) {
    emit_removed(bus, "/org/freedesktop/systemd1/job/6", "other.service", "failed");
  }
  const bool first = systemd.answer() == Answer::finishes_at_once;
  if (first) emit_removed(bus, kJob, unit, systemd.result().c_str());
  sd_bus_reply_method_return(message, "o", kJob);
  if (systemd.answer() == Answer::finishes) {
    emit_removed(bus, kJob, unit, systemd.result().c_str());
  }
  return 1;
}

std::string unit_path(const std::string& unit) {
  char* raw = nullptr;
  if (sd_bus_path_encode(kUnits, unit.c_str(), &raw) < 0) return "/";
  std::string path(raw);
  std::free(raw);
  return path;
}

int own_unit(sd_bus_message* message, const FakeUnits& units) {
  if (!units.own) {
    return sd_bus_reply_method_errorf(message, SD_BUS_ERROR_ACCESS_DENIED, "not now");
  }
  if (units.own->empty()) {
    return sd_bus_reply_method_errorf(message, "org.freedesktop.systemd1.NoUnitForPID", "none");
  }
  return sd_bus_reply_method_return(message, "o", unit_path(*units.own).c_str());
}

int active_state(sd_bus_message* message, FakeSystemd& systemd, const std::string& unit) {
  const std::string state = systemd.next_state();
  if (!state.empty() && state == systemd.units().later_error) {
    return sd_bus_reply_method_errorf(message, state.c_str(), "no state");
  }
  const int sent = sd_bus_reply_method_return(message, "v", "s", state.c_str());
  if (sent < 0 || !systemd.changes_state()) return sent;
  sd_bus_message* signal = nullptr;
  sd_bus* bus = sd_bus_message_get_bus(message);
  if (sd_bus_message_new_signal(bus, &signal, unit_path(unit).c_str(),
                                "org.freedesktop.DBus.Properties", "PropertiesChanged") < 0) {
    return -EIO;
  }
  sd_bus_message_set_sender(signal, "org.freedesktop.systemd1");
  sd_bus_message_append(signal, "sa{sv}as", "org.freedesktop.systemd1.Unit", 0U, 1U, "ActiveState");
  sd_bus_send(bus, signal, nullptr);
  sd_bus_message_unref(signal);
  return 1;
}

int store_max(sd_bus_message* message, FakeSystemd& systemd) {
  const auto max = systemd.units().store_max;
  if (max) return sd_bus_reply_method_return(message, "v", "u", *max);
  return sd_bus_reply_method_errorf(message, SD_BUS_ERROR_UNKNOWN_PROPERTY, "no such property");
}

// An alias of own.service is "alias.service".
int property(sd_bus_message* message, FakeSystemd& systemd) {
  const char* interface = nullptr;
  const char* name = nullptr;
  char* raw = nullptr;
  if (sd_bus_message_read(message, "ss", &interface, &name) < 0) return -EINVAL;
  if (std::string_view(name) == "Version") {
    return sd_bus_reply_method_return(message, "v", "s", systemd.units().version.c_str());
  }
  if (std::string_view(name) == "LoadState") {
    return sd_bus_reply_method_return(message, "v", "s", systemd.units().load_state.c_str());
  }
  if (std::string_view(name) == "FileDescriptorStoreMax") return store_max(message, systemd);
  if (sd_bus_path_decode(sd_bus_message_get_path(message), kUnits, &raw) <= 0) {
    return -EINVAL;
  }
  std::string id(raw);
  std::free(raw);
  if (id == "alias.service") id = "own.service";
  if (!systemd.units().unit.empty()) id = systemd.units().unit;
  if (std::string_view(name) == "Id") {
    return sd_bus_reply_method_return(message, "v", "s", id.c_str());
  }
  return active_state(message, systemd, id);
}

int on_message(sd_bus_message* message, void* userdata, sd_bus_error*) {
  auto& systemd = *static_cast<FakeSystemd*>(userdata);
  const char* member = sd_bus_message_get_member(message);
  const std::string_view name = member == nullptr ? "" : member;
  if (systemd.answer() == FakeSystemd::Answer::answers_nothing) return 1;
  if (name == "Hello") return sd_bus_reply_method_return(message, "s", ":1.1");
  if (name == "AddMatch" || name == "Subscribe") return sd_bus_reply_method_return(message, "");
  if (name == "GetUnitByPID") return own_unit(message, systemd.units());
  if (name == "Get") return property(message, systemd);
  return name == "RestartUnit" ? restart_unit(message, systemd) : 0;
}

}  // namespace

FakeSystemd::FakeSystemd(Answer answer, std::string result, FakeUnits units)
    : answer_(answer), result_(std::move(result)), units_(std::move(units)) {
  listening_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ / "bus";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening_.get(), 4) != 0) {
    throw std::runtime_error("listen on " + path);
  }
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  requested_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { serve(); });
}

FakeSystemd::~FakeSystemd() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::vector<std::string> FakeSystemd::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeSystemd::wait_for_request() const {
  eventfd_t ignored = 0;
  ::eventfd_read(requested_.get(), &ignored);
}

std::string FakeSystemd::next_state() {
  if (++states_read_ <= early_readings() || !changes()) return units_.active_state;
  return units_.later_error.empty() ? units_.later_state : units_.later_error;
}

void FakeSystemd::add_request(const std::string& request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  ::eventfd_write(requested_.get(), 1);
}

void FakeSystemd::serve() {
  for (;;) {
    std::array<pollfd, 2> fds{{{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) <= 0) continue;
    if (fds[0].revents != 0) return;
    if (answer_ == Answer::accepts_nothing) {
      ::poll(fds.data(), 1, -1);
      return;
    }
    UniqueFd connection(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) serve_connection(std::move(connection));
  }
}

void FakeSystemd::serve_connection(UniqueFd connection) {
  sd_bus* raw = nullptr;
  sd_id128_t id{};
  sd_id128_randomize(&id);
  if (sd_bus_new(&raw) < 0) return;
  const std::unique_ptr<sd_bus, ServerDeleter> bus(raw);
  const int fd = connection.release();
  if (sd_bus_set_fd(raw, fd, fd) < 0 || sd_bus_set_server(raw, 1, id) < 0 ||
      sd_bus_add_filter(raw, nullptr, on_message, this) < 0 || sd_bus_start(raw) < 0) {
    return;
  }
  for (;;) {
    const int done = sd_bus_process(raw, nullptr);
    if (done < 0) return;
    if (done > 0) continue;
    const int events = std::max(sd_bus_get_events(raw), 0);
    std::array<pollfd, 2> fds{
        {{stop_.get(), POLLIN, 0}, {sd_bus_get_fd(raw), static_cast<short>(events), 0}}};
    if (::poll(fds.data(), fds.size(), -1) > 0 && fds[0].revents != 0) return;
  }
}

}  // namespace forestall::test
