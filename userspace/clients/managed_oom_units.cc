// SPDX-License-Identifier: Apache-2.0
#include "clients/managed_oom_units.h"

#include <fmt/format.h>
#include <systemd/sd-bus.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace forestall::clients {
namespace {

constexpr const char* kSystemdName = "org.freedesktop.systemd1";
constexpr const char* kSystemdPath = "/org/freedesktop/systemd1";
constexpr const char* kSystemdManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kUnitUnloaded = "org.freedesktop.systemd1.NoSuchUnit";
constexpr std::string_view kUnitObjects = "/org/freedesktop/systemd1/unit/";
// Its driver; no client can use this name.
constexpr const char* kBusName = "org.freedesktop.DBus";
// More changed units than this are read as all units.
constexpr std::size_t kChangedMax = 1024;
// A longer path is not kept.
constexpr std::size_t kPathMax = 512;
// Signals that may come while one unit is read, or at once. Any local user can send the agent some.
constexpr std::uint64_t kQueuedMax = 4096;

constexpr const char* kUnitNew =
    "type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',"
    "interface='org.freedesktop.systemd1.Manager',member='UnitNew'";
constexpr const char* kReloading =
    "type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',"
    "interface='org.freedesktop.systemd1.Manager',member='Reloading'";
constexpr const char* kPropertiesChanged =
    "type='signal',sender='org.freedesktop.systemd1',"
    "path_namespace='/org/freedesktop/systemd1/unit',"
    "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'";
constexpr const char* kOwnerChanged =
    "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
    "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='org.freedesktop.systemd1'";

class BusError {
 public:
  BusError() = default;
  BusError(const BusError&) = delete;
  BusError& operator=(const BusError&) = delete;
  ~BusError() { sd_bus_error_free(&error_); }

  sd_bus_error* out() { return &error_; }
  [[nodiscard]] bool is(const char* name) const { return sd_bus_error_has_name(&error_, name) > 0; }
  // Whether the unit's object is there no more.
  [[nodiscard]] bool is_unloaded() const {
    return is(kUnitUnloaded) || is(SD_BUS_ERROR_UNKNOWN_OBJECT);
  }
  // Whether systemd refused a call that it got: every other error is about the connection.
  [[nodiscard]] bool is_refusal() const {
    if (sd_bus_error_is_set(&error_) == 0) return false;
    constexpr std::array<const char*, 5> kOfConnection{
        SD_BUS_ERROR_NO_REPLY, SD_BUS_ERROR_TIMEOUT, SD_BUS_ERROR_DISCONNECTED,
        SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER};
    for (const char* name : kOfConnection) {
      if (is(name)) return false;
    }
    return true;
  }
  [[nodiscard]] Error error(int code, const std::string& what) const {
    if (sd_bus_error_is_set(&error_) == 0) return Error{-code, what};
    const char* message = error_.message == nullptr ? "no message" : error_.message;
    return Error{-code, fmt::format("{}: {}: {}", what, error_.name, message)};
  }

 private:
  sd_bus_error error_ = SD_BUS_ERROR_NULL;
};

struct BusMessageDeleter {
  void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using BusMessage = std::unique_ptr<sd_bus_message, BusMessageDeleter>;

Error sd_bus_failure(int code, const std::string& what) {
  return Error{-code, what};
}

// Of the connection, which the bus itself fills in. The match of a sender's well-known name does
// not check it: a client may send a signal to the agent alone, which passes no match of the bus.
std::string_view sender_of(sd_bus_message* signal) {
  const char* sender = sd_bus_message_get_sender(signal);
  return sender == nullptr ? "" : sender;
}

int on_unit_new(sd_bus_message* signal, void* userdata, sd_bus_error*) {
  auto& units = *static_cast<ManagedOomUnits*>(userdata);
  if (!units.is_systemd(sender_of(signal))) return 0;
  const char* id = nullptr;
  const char* path = nullptr;
  if (sd_bus_message_read(signal, "so", &id, &path) < 0) return 0;
  units.note_change(path);
  return 0;
}

int on_unit_properties(sd_bus_message* signal, void* userdata, sd_bus_error*) {
  auto& units = *static_cast<ManagedOomUnits*>(userdata);
  if (units.is_systemd(sender_of(signal))) units.note_change(sd_bus_message_get_path(signal));
  return 0;
}

int on_reloading(sd_bus_message* signal, void* userdata, sd_bus_error*) {
  auto& units = *static_cast<ManagedOomUnits*>(userdata);
  int begins = 0;
  if (!units.is_systemd(sender_of(signal))) return 0;
  if (sd_bus_message_read(signal, "b", &begins) < 0) return 0;
  units.note_reload(begins != 0);
  return 0;
}

int on_owner(sd_bus_message* signal, void* userdata, sd_bus_error*) {
  if (sender_of(signal) == kBusName) static_cast<ManagedOomUnits*>(userdata)->note_restart();
  return 0;
}

// The interface with the properties of its kind; null: units of the kind have no ManagedOOM.
const char* interface_of(std::string_view unit) {
  if (unit.ends_with(".slice")) return "org.freedesktop.systemd1.Slice";
  if (unit.ends_with(".service")) return "org.freedesktop.systemd1.Service";
  if (unit.ends_with(".scope")) return "org.freedesktop.systemd1.Scope";
  return nullptr;
}

bool is_active(std::string_view state) {
  return state != "inactive" && state != "failed";
}

// One property of a unit at a time.
class UnitReader {
 public:
  UnitReader(sd_bus* bus, const std::string& path, const std::string& interface)
      : bus_(bus), path_(path), interface_(interface) {}

  // What failed last was refused by systemd, or its unit is gone.
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] bool gone() const { return gone_; }

  Result<std::string> text(const char* property) {
    BusError problem;
    char* raw = nullptr;
    const int code = sd_bus_get_property_string(bus_, kSystemdName, path_.c_str(),
                                                interface_.c_str(), property, problem.out(), &raw);
    if (code < 0) return failed(problem, code, property);
    std::string value(raw);
    std::free(raw);
    return value;
  }

  Result<bool> kills(const char* property) {
    const std::string mode = TRY(text(property));
    if (mode == "kill" || mode == "auto") return mode == "kill";
    refused_ = true;
    return error(fmt::format("{} is '{}', neither auto nor kill", property, mode));
  }

  // Nothing: this systemd has no such property.
  template <typename Number>
  Result<std::optional<Number>> number(const char* property, char type) {
    BusError problem;
    Number value = 0;
    const int code =
        sd_bus_get_property_trivial(bus_, kSystemdName, path_.c_str(), interface_.c_str(), property,
                                    problem.out(), type, &value);
    if (code >= 0) return std::optional(value);
    if (problem.is(SD_BUS_ERROR_UNKNOWN_PROPERTY)) return std::optional<Number>();
    return failed(problem, code, property);
  }

 private:
  // A property of another type is systemd's fault too, not that of the connection.
  Error failed(const BusError& problem, int code, const char* property) {
    gone_ = problem.is_unloaded();
    refused_ = problem.is_refusal() || code == -ENXIO;
    return problem.error(code, std::string("get ") + property);
  }

  sd_bus* bus_;
  const std::string& path_;
  const std::string& interface_;
  bool refused_ = false;
  bool gone_ = false;
};

Result<ManagedUnit> read_unit(UnitReader& reader, const std::string& name) {
  ManagedUnit unit;
  unit.name = name;
  unit.swap = TRY(reader.kills("ManagedOOMSwap"));
  unit.pressure = TRY(reader.kills("ManagedOOMMemoryPressure"));
  if (!unit.swap && !unit.pressure) return unit;
  unit.cgroup = TRY(reader.text("ControlGroup"));
  if (!unit.pressure) return unit;
  unit.limit = TRY(reader.number<std::uint32_t>("ManagedOOMMemoryPressureLimit", 'u')).value_or(0);
  const auto duration =
      TRY(reader.number<std::uint64_t>("ManagedOOMMemoryPressureDurationUSec", 't'));
  // systemd sends its largest number for the default.
  if (duration && *duration <= std::numeric_limits<std::int64_t>::max()) {
    unit.duration = std::chrono::microseconds(*duration);
  }
  return unit;
}

}  // namespace

Result<std::unique_ptr<ManagedOomUnits>> ManagedOomUnits::connect(const std::string& address,
                                                                  ManagedUnits known) {
  // Not within the expression of `new`: TRY may return after the memory is allocated.
  auto bus = TRY(connect_to_bus(address, kTimeout));
  std::unique_ptr<ManagedOomUnits> made(new ManagedOomUnits(std::move(bus), std::move(known)));
  TRY(made->subscribe());
  return made;
}

ManagedOomUnits::ManagedOomUnits(BusConnection bus, ManagedUnits known)
    : bus_(std::move(bus)), units_(std::move(known)) {}

ManagedOomUnits::~ManagedOomUnits() = default;

// The signals first: no change between the first reading and them is missed.
Result<void> ManagedOomUnits::subscribe() {
  int code = 0;
  const std::pair<const char*, sd_bus_message_handler_t> signals[] = {
      {kUnitNew, on_unit_new},
      {kReloading, on_reloading},
      {kPropertiesChanged, on_unit_properties},
      {kOwnerChanged, on_owner}};
  for (const auto& [match, on_signal] : signals) {
    code = sd_bus_add_match_async(bus_.get(), nullptr, match, on_signal, nullptr, this);
    if (code < 0) return sd_bus_failure(code, "match signals of systemd");
  }
  owner_ = TRY(systemd_owner());
  BusError problem;
  code = sd_bus_call_method(bus_.get(), kSystemdName, kSystemdPath, kSystemdManager, "Subscribe",
                            problem.out(), nullptr, nullptr);
  if (code < 0) return problem.error(code, "subscribe to systemd's signals");
  return {};
}

// A change of it after this call is signalled.
Result<std::string> ManagedOomUnits::systemd_owner() {
  BusError problem;
  sd_bus_message* raw = nullptr;
  int code = sd_bus_call_method(bus_.get(), kBusName, "/org/freedesktop/DBus", kBusName,
                                "GetNameOwner", problem.out(), &raw, "s", kSystemdName);
  const BusMessage reply(raw);
  if (code < 0) return problem.error(code, "get the owner of systemd's name");
  const char* owner = nullptr;
  code = sd_bus_message_read(raw, "s", &owner);
  if (code < 0) return sd_bus_failure(code, "read the owner of systemd's name");
  return std::string(owner);
}

int ManagedOomUnits::fd() const {
  return sd_bus_get_fd(bus_.get());
}

short ManagedOomUnits::events() const {
  return bus_events(bus_.get());
}

Result<void> ManagedOomUnits::process() {
  if (TRY(dispatch(kQueuedMax))) return error("signals come faster than they are read");
  return {};
}

// Whether more may be there.
Result<bool> ManagedOomUnits::dispatch(std::uint64_t most) {
  int done = 1;
  for (; done > 0 && most > 0; --most) done = sd_bus_process(bus_.get(), nullptr);
  if (done < 0) return sd_bus_failure(done, "the connection to D-Bus was lost");
  if (restarted_) return error("systemd left the bus");
  return done > 0;
}

// What came while a call waited for its reply.
Result<void> ManagedOomUnits::take_queued() {
  std::uint64_t queued = 0;
  const int code = sd_bus_get_n_queued_read(bus_.get(), &queued);
  if (code < 0) return sd_bus_failure(code, "sd_bus_get_n_queued_read");
  if (queued > kQueuedMax) return error(fmt::format("{} signals came during a call", queued));
  TRY(dispatch(queued));
  return {};
}

void ManagedOomUnits::note_change(const char* path) {
  const std::string_view object = path == nullptr ? "" : path;
  if (!object.starts_with(kUnitObjects) || object.size() > kPathMax) return;
  if (changed_.size() >= kChangedMax) {
    all_ = true;
    return;
  }
  changed_.insert(path);
}

Result<std::map<std::string, ManagedOomUnits::Listed>> ManagedOomUnits::list() {
  BusError problem;
  sd_bus_message* raw = nullptr;
  const int code = sd_bus_call_method(bus_.get(), kSystemdName, kSystemdPath, kSystemdManager,
                                      "ListUnitsByPatterns", problem.out(), &raw, "asas", 0U, 3U,
                                      "*.slice", "*.service", "*.scope");
  const BusMessage reply(raw);
  if (code < 0) return problem.error(code, "list the units of systemd");
  if (sd_bus_message_enter_container(raw, 'a', "(ssssssouso)") < 0) {
    return error("the list of units is no list");
  }
  std::map<std::string, Listed> units;
  const char* name = nullptr;
  const char* state = nullptr;
  const char* path = nullptr;
  int more = 1;
  while ((more = sd_bus_message_read(raw, "(ssssssouso)", &name, nullptr, nullptr, &state, nullptr,
                                     nullptr, &path, nullptr, nullptr, nullptr)) > 0) {
    const char* interface = interface_of(name);
    if (interface == nullptr || !is_active(state)) continue;
    if (units.size() >= kUnitsMax) {
      return error(fmt::format("systemd has more than {} active units", kUnitsMax));
    }
    units.emplace(path, Listed{name, interface});
  }
  if (more < 0) return sd_bus_failure(more, "read the list of units");
  return units;
}

Result<std::optional<ManagedUnit>> ManagedOomUnits::read(const std::string& path,
                                                         const Listed& listed) {
  UnitReader reader(bus_.get(), path, listed.interface);
  auto unit = read_unit(reader, listed.name);
  if (unit) return std::optional(*std::move(unit));
  if (reader.gone()) return std::optional<ManagedUnit>();
  if (!reader.refused()) return unit.error();
  problems_.push_back(listed.name + ": " + unit.error().text());
  changed_.insert(path);  // to be read again
  const auto known = units_.find(path);
  if (known == units_.end()) return std::optional<ManagedUnit>();
  return std::optional(known->second);
}

Result<void> ManagedOomUnits::refresh(bool all, const std::function<bool()>& stopping) {
  all = std::exchange(all_, false) || all;
  const std::set<std::string> changed = std::exchange(changed_, {});
  problems_.clear();
  ManagedUnits next;
  for (const auto& [path, listed] : TRY(list())) {
    if (stopping()) return error("the agent stops");
    TRY(take_queued());
    const auto known = units_.find(path);
    if (!all && known != units_.end() && !changed.contains(path)) {
      next.insert(*known);
      continue;
    }
    if (auto unit = TRY(read(path, listed))) next.emplace(path, *std::move(unit));
  }
  units_ = std::move(next);
  return {};
}

}  // namespace forestall::clients
