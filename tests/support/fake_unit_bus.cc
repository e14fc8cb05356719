// SPDX-License-Identifier: Apache-2.0
#include "support/fake_unit_bus.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace forestall::test {
namespace {

constexpr const char* kServedName = "org.freedesktop.systemd1";
constexpr const char* kServedPath = "/org/freedesktop/systemd1";
constexpr const char* kServedManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kServedOwner = ":1.0";
constexpr const char* kOtherClient = ":1.99";
constexpr const char* kDriver = "org.freedesktop.DBus";
constexpr const char* kServedUnits = "/org/freedesktop/systemd1/unit";

struct BusDeleter {
  void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
};
struct MessageUnref {
  void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using OwnedMessage = std::unique_ptr<sd_bus_message, MessageUnref>;

std::string object_of(const std::string& unit) {
  char* raw = nullptr;
  if (sd_bus_path_encode(kServedUnits, unit.c_str(), &raw) < 0) return "/";
  std::string path(raw);
  std::free(raw);
  return path;
}

template <typename... Values>
void emit(sd_bus* bus, const char* sender, const std::string& path, const char* interface,
          const char* member, const char* types, Values... values) {
  sd_bus_message* raw = nullptr;
  if (sd_bus_message_new_signal(bus, &raw, path.c_str(), interface, member) < 0) return;
  const OwnedMessage signal(raw);
  sd_bus_message_set_sender(raw, sender);
  sd_bus_message_append(raw, types, values...);
  sd_bus_send(bus, raw, nullptr);
}

void emit_change(sd_bus* bus, const char* sender, const std::string& name) {
  emit(bus, sender, object_of(name), "org.freedesktop.DBus.Properties", "PropertiesChanged",
       "sa{sv}as", "org.freedesktop.systemd1.Unit", 0U, 1U, "ActiveState");
}

void emit_new(sd_bus* bus, const char* sender, const std::string& name, const std::string& path) {
  emit(bus, sender, kServedPath, kServedManager, "UnitNew", "so", name.c_str(), path.c_str());
}

void emit_reloaded(sd_bus* bus, const char* sender) {
  emit(bus, sender, kServedPath, kServedManager, "Reloading", "b", 0);
}

void emit_reexec(sd_bus* bus, const char* sender) {
  emit(bus, sender, "/org/freedesktop/DBus", kDriver, "NameOwnerChanged", "sss", kServedName,
       kServedOwner, "");
}

int list_units(sd_bus_message* message, FakeUnitBus& systemd) {
  sd_bus_message* raw = nullptr;
  if (sd_bus_message_new_method_return(message, &raw) < 0) return -EIO;
  const OwnedMessage reply(raw);
  sd_bus_message_open_container(raw, 'a', "(ssssssouso)");
  for (const auto& [name, unit] : systemd.units()) {
    sd_bus_message_append(raw, "(ssssssouso)", name.c_str(), "", "loaded", unit.state.c_str(), "",
                          "", object_of(name).c_str(), 0U, "", "/");
  }
  sd_bus_message_close_container(raw);
  return sd_bus_send(nullptr, raw, nullptr) < 0 ? -EIO : 1;
}

int get_property(sd_bus_message* message, FakeUnitBus& systemd) {
  const char* interface = nullptr;
  const char* property = nullptr;
  char* raw = nullptr;
  if (sd_bus_message_read(message, "ss", &interface, &property) < 0 ||
      sd_bus_path_decode(sd_bus_message_get_path(message), kServedUnits, &raw) <= 0) {
    return -EINVAL;
  }
  const std::string name(raw);
  std::free(raw);
  const auto unit = systemd.unit(name);
  if (!unit) {
    return sd_bus_reply_method_errorf(message, SD_BUS_ERROR_UNKNOWN_OBJECT, "no %s", name.c_str());
  }
  const std::string_view wanted(property);
  if (wanted == "ManagedOOMSwap") systemd.note_read(name);
  for (std::size_t left = systemd.take_flood(); left > 0; --left) {
    emit_change(sd_bus_message_get_bus(message), kOtherClient, name);
  }
  if (!unit->error.empty()) {
    return sd_bus_reply_method_errorf(message, unit->error.c_str(), "not now");
  }
  const auto text = [&](const std::string& value) {
    return sd_bus_reply_method_return(message, "v", "s", value.c_str());
  };
  if (wanted == "ManagedOOMSwap") return text(unit->swap);
  if (wanted == "ManagedOOMMemoryPressure") return text(unit->pressure);
  if (wanted == "ControlGroup") return text(unit->cgroup);
  if (wanted == "ManagedOOMMemoryPressureLimit") {
    return sd_bus_reply_method_return(message, "v", "u", unit->limit);
  }
  if (wanted == "ManagedOOMMemoryPressureDurationUSec" && unit->duration) {
    return sd_bus_reply_method_return(message, "v", "t", *unit->duration);
  }
  return sd_bus_reply_method_errorf(message, SD_BUS_ERROR_UNKNOWN_PROPERTY, "no %s", property);
}

int take_killed(sd_bus_message* message, FakeUnitBus& systemd) {
  const char* cgroup = nullptr;
  const char* reason = nullptr;
  if (sd_bus_message_read(message, "ss", &cgroup, &reason) < 0) return -EINVAL;
  systemd.note_killed(std::string(cgroup) + " " + reason);
  return 1;
}

int on_call(sd_bus_message* message, void* userdata, sd_bus_error*) {
  auto& systemd = *static_cast<FakeUnitBus*>(userdata);
  const char* member = sd_bus_message_get_member(message);
  const std::string_view name = member == nullptr ? "" : member;
  if (sd_bus_message_is_signal(message, "org.freedesktop.oom1.Manager", "Killed") > 0) {
    return take_killed(message, systemd);
  }
  if (name == "RequestName") return sd_bus_reply_method_return(message, "u", systemd.name_reply());
  if (name == "Hello") return sd_bus_reply_method_return(message, "s", ":1.1");
  if (name == "GetNameOwner") return sd_bus_reply_method_return(message, "s", kServedOwner);
  if (name == "AddMatch" || name == "Subscribe") return sd_bus_reply_method_return(message, "");
  if (name == "ListUnitsByPatterns") return list_units(message, systemd);
  return name == "Get" ? get_property(message, systemd) : 0;
}

}  // namespace

FakeUnitBus::FakeUnitBus(FakeUnitTable units) : units_(std::move(units)) {
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  open();
  thread_ = std::thread([this] { serve(); });
}

FakeUnitBus::~FakeUnitBus() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void FakeUnitBus::open() {
  const std::string path = folder_ / "bus";
  ::unlink(path.c_str());
  listening_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening_.get(), 4) != 0) {
    throw std::runtime_error("listen on " + path);
  }
}

void FakeUnitBus::set(const std::string& name, FakeUnit unit) {
  const std::lock_guard lock(mutex_);
  units_[name] = std::move(unit);
}

void FakeUnitBus::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  units_.erase(name);
}

std::optional<FakeUnit> FakeUnitBus::unit(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = units_.find(name);
  return found == units_.end() ? std::nullopt : std::optional(found->second);
}

FakeUnitTable FakeUnitBus::units() const {
  const std::lock_guard lock(mutex_);
  return units_;
}

void FakeUnitBus::note_read(const std::string& name) {
  const std::lock_guard lock(mutex_);
  read_.push_back(name);
}

void FakeUnitBus::set_name_reply(std::uint32_t reply) {
  const std::lock_guard lock(mutex_);
  name_reply_ = reply;
}

std::uint32_t FakeUnitBus::name_reply() const {
  const std::lock_guard lock(mutex_);
  return name_reply_;
}

void FakeUnitBus::note_killed(std::string killed) {
  {
    const std::lock_guard lock(mutex_);
    killed_.push_back(std::move(killed));
  }
  killed_changed_.notify_all();
}

std::string FakeUnitBus::next_killed() {
  std::unique_lock lock(mutex_);
  killed_changed_.wait(lock, [&] { return !killed_.empty(); });
  std::string first = std::move(killed_.front());
  killed_.pop_front();
  return first;
}

void FakeUnitBus::flood(std::size_t signals) {
  const std::lock_guard lock(mutex_);
  flood_ = signals;
}

std::size_t FakeUnitBus::take_flood() {
  const std::lock_guard lock(mutex_);
  return std::exchange(flood_, 0);
}

std::vector<std::string> FakeUnitBus::read_units() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

void FakeUnitBus::post(Order order, const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    orders_.emplace_back(order, name);
  }
  ::eventfd_write(wake_.get(), 1);
}

void FakeUnitBus::go_away() {
  {
    const std::lock_guard lock(mutex_);
    away_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  std::unique_lock lock(mutex_);
  closed_changed_.wait(lock, [&] { return closed_; });
}

void FakeUnitBus::accept_again() {
  {
    const std::lock_guard lock(mutex_);
    away_ = false;
  }
  ::eventfd_write(wake_.get(), 1);
}

void FakeUnitBus::serve() {
  for (;;) {
    bool away = false;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      away = away_;
    }
    if (away) {
      listening_.reset();
    } else if (!listening_) {
      open();
    }
    {
      const std::lock_guard lock(mutex_);
      closed_ = away;
    }
    closed_changed_.notify_all();
    std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) <= 0) continue;
    eventfd_t ignored = 0;
    if (fds[0].revents != 0) ::eventfd_read(wake_.get(), &ignored);
    if (fds[1].revents == 0) continue;
    UniqueFd connection(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) serve_connection(std::move(connection));
  }
}

void FakeUnitBus::serve_connection(UniqueFd connection) {
  sd_bus* raw = nullptr;
  sd_id128_t id{};
  sd_id128_randomize(&id);
  if (sd_bus_new(&raw) < 0) return;
  const std::unique_ptr<sd_bus, BusDeleter> bus(raw);
  const int fd = connection.release();
  if (sd_bus_set_fd(raw, fd, fd) < 0 || sd_bus_set_server(raw, 1, id) < 0 ||
      sd_bus_add_filter(raw, nullptr, on_call, this) < 0 || sd_bus_start(raw) < 0) {
    return;
  }
  for (;;) {
    std::vector<std::pair<Order, std::string>> orders;
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || away_) return;
      std::swap(orders, orders_);
    }
    for (const auto& [order, name] : orders) {
      switch (order) {
        case Order::change: emit_change(raw, kServedOwner, name); break;
        case Order::new_unit: emit_new(raw, kServedOwner, name, object_of(name)); break;
        case Order::new_path: emit_new(raw, kServedOwner, "any.service", name); break;
        case Order::reloaded: emit_reloaded(raw, kServedOwner); break;
        case Order::reexec: emit_reexec(raw, kDriver); break;
        case Order::forged:
          emit_change(raw, kOtherClient, name);
          emit_new(raw, kOtherClient, name, object_of(name));
          emit_reloaded(raw, kOtherClient);
          emit_reexec(raw, kOtherClient);
          break;
      }
    }
    const int done = sd_bus_process(raw, nullptr);
    if (done < 0) return;
    if (done > 0) continue;
    const int events = std::max(sd_bus_get_events(raw), 0);
    std::array<pollfd, 2> fds{
        {{wake_.get(), POLLIN, 0}, {sd_bus_get_fd(raw), static_cast<short>(events), 0}}};
    eventfd_t ignored = 0;
    if (::poll(fds.data(), fds.size(), -1) > 0 && fds[0].revents != 0) {
      ::eventfd_read(wake_.get(), &ignored);
    }
  }
}

}  // namespace forestall::test
