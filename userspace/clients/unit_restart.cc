// SPDX-License-Identifier: Apache-2.0
#include "clients/unit_restart.h"

#include <fmt/format.h>
#include <poll.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "clients/bus_connection.h"

namespace forestall::clients {
namespace {

constexpr const char* kName = "org.freedesktop.systemd1";
constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kUnits = "/org/freedesktop/systemd1/unit";
constexpr const char* kUnit = "org.freedesktop.systemd1.Unit";
constexpr const char* kProperties = "org.freedesktop.DBus.Properties";
constexpr const char* kNoUnit = "org.freedesktop.systemd1.NoUnitForPID";
constexpr const char* kUnloaded = "org.freedesktop.systemd1.NoSuchUnit";
// systemd refuses the job if another one of the unit is queued that it would replace, such as a
// stop. A start or a restart that is queued is merged with it instead.
constexpr const char* kMode = "fail";
// Jobs that ended before the reply with the path of ours; older ones are dropped.
constexpr std::size_t kEndedJobsMax = 256;

struct EndedJob {
  std::string path;
  std::string result;
};

// What the callbacks found.
struct JobState {
  // Required before the request.
  std::optional<std::string> own_unit;  // the agent's; empty: it runs in none
  std::optional<std::string> id;        // `unit` may be an alias
  std::optional<std::string> active_state;
  std::string path;         // of the unit's object: of the given name, then of `id`
  bool is_reading = false;  // the state: a reply to come has every change that was reported before
  bool is_waiting = false;  // for a start, reload or stop that is under way
  bool was_stopping = false;
  bool has_stopped = false;  // by itself: there is no request
  bool requested = false;
  std::string job;  // empty: there is no reply yet
  std::optional<std::string> result;
  std::optional<Error> refused;
  std::deque<EndedJob> ended;
};

Error bus_error(int code, const std::string& what) {
  return Error{-code, what};
}

Error reply_error(sd_bus_message* reply) {
  const sd_bus_error* error = sd_bus_message_get_error(reply);
  return Error{sd_bus_message_get_errno(reply),
               fmt::format("{}: {}", error->name,
                           error->message == nullptr ? "no message" : error->message)};
}

// systemd may have the request despite an error of sd-bus itself.
bool is_refusal(sd_bus_message* reply) {
  return sd_bus_message_is_method_error(reply, SD_BUS_ERROR_NO_REPLY) == 0 &&
         sd_bus_message_is_method_error(reply, SD_BUS_ERROR_TIMEOUT) == 0 &&
         sd_bus_message_is_method_error(reply, SD_BUS_ERROR_DISCONNECTED) == 0;
}

void find_result(JobState& state) {
  const auto ended = std::ranges::find(state.ended, state.job, &EndedJob::path);
  if (ended != state.ended.end()) state.result = ended->result;
}

int on_subscribed(sd_bus_message* reply, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  if (sd_bus_message_is_method_error(reply, nullptr) > 0) state.refused = reply_error(reply);
  return 0;
}

int on_restart_reply(sd_bus_message* reply, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  if (sd_bus_message_is_method_error(reply, nullptr) > 0) {
    state.refused = reply_error(reply);
    state.requested = !is_refusal(reply);
    return 0;
  }
  const char* job = nullptr;
  const int code = sd_bus_message_read(reply, "o", &job);
  if (code < 0) {
    state.refused = bus_error(code, "read the reply to RestartUnit");
    return 0;
  }
  state.job = job;
  find_result(state);
  return 0;
}

int on_job_removed(sd_bus_message* message, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  std::uint32_t id = 0;
  const char* job = nullptr;
  const char* unit = nullptr;
  const char* result = nullptr;
  if (sd_bus_message_read(message, "uoss", &id, &job, &unit, &result) < 0) return 0;
  if (!state.job.empty()) {
    if (state.job == job) state.result = result;
  } else {
    if (state.ended.size() == kEndedJobsMax) state.ended.pop_front();
    state.ended.push_back({job, result});
  }
  return 0;
}

// src/basic/unit-def.c unit_active_state_table.
bool is_transition(const std::string& active_state) {
  return active_state == "activating" || active_state == "deactivating" ||
         active_state == "reloading" || active_state == "refreshing";
}

// Once systemd has described the unit, and again when its state changed. A job for a unit whose own
// start is under way would be merged with that start, and stop the unit first (src/core/job.c
// job_install()): a unit that takes longer to start than a ruleset pauses would never start. So a
// start or reload is waited for. A unit that stops frees its memory as a restart would; after that
// a restart would only start what may have been stopped on purpose. A start that begins between
// the two calls is not seen.
void request_when_described(sd_bus* bus, JobState& state) {
  if (state.requested || state.has_stopped) return;
  if (!state.own_unit || !state.id || !state.active_state || state.refused) return;
  if (*state.id == *state.own_unit) {
    state.refused = Error{EPERM, "the agent runs in it"};
    return;
  }
  const bool stops = *state.active_state == "deactivating";
  state.has_stopped = state.was_stopping && !stops;
  state.was_stopping = stops;
  if (state.has_stopped) return;
  state.is_waiting = is_transition(*state.active_state);
  if (state.is_waiting) return;
  const int code =
      sd_bus_call_method_async(bus, nullptr, kName, kPath, kManager, "RestartUnit",
                               on_restart_reply, &state, "ss", state.id->c_str(), kMode);
  if (code < 0) {
    state.refused = bus_error(code, "call RestartUnit");
    return;
  }
  state.requested = true;
}

int on_own_unit(sd_bus_message* reply, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  const char* path = nullptr;
  char* name = nullptr;
  if (sd_bus_message_is_method_error(reply, kNoUnit) > 0) {
    state.own_unit = "";
  } else if (sd_bus_message_is_method_error(reply, nullptr) > 0) {
    state.refused = reply_error(reply).in("find the agent's own unit");
  } else if (sd_bus_message_read(reply, "o", &path) < 0 ||
             sd_bus_path_decode(path, kUnits, &name) <= 0) {
    state.refused = error("the reply to GetUnitByPID is no unit");
  } else {
    state.own_unit = name;
    std::free(name);
  }
  request_when_described(sd_bus_message_get_bus(reply), state);
  return 0;
}

int on_property(sd_bus_message* reply, JobState& state, std::optional<std::string>& value) {
  const char* text = nullptr;
  if (state.requested) return 0;  // the reply to an earlier change
  if (sd_bus_message_is_method_error(reply, nullptr) > 0) {
    // systemd has unloaded a unit that is stopped. Any other error leaves its state unknown.
    const bool is_unloaded = sd_bus_message_is_method_error(reply, kUnloaded) > 0 ||
                             sd_bus_message_is_method_error(reply, SD_BUS_ERROR_UNKNOWN_OBJECT) > 0;
    state.has_stopped = state.was_stopping && is_unloaded;
    if (!state.has_stopped) state.refused = reply_error(reply);
  } else if (sd_bus_message_read(reply, "v", "s", &text) < 0) {
    state.refused = error("a property of the unit is no text");
  } else {
    value = text;
  }
  request_when_described(sd_bus_message_get_bus(reply), state);
  return 0;
}

int on_active_state(sd_bus_message* reply, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  state.is_reading = false;
  return on_property(reply, state, state.active_state);
}

Result<void> get_property(sd_bus* bus, const char* property, sd_bus_message_handler_t on_reply,
                          JobState& state) {
  const int sent = sd_bus_call_method_async(bus, nullptr, kName, state.path.c_str(), kProperties,
                                            "Get", on_reply, &state, "ss", kUnit, property);
  if (sent < 0) return bus_error(sent, std::string("get ") + property);
  return {};
}

Result<void> read_state(sd_bus* bus, JobState& state) {
  state.is_reading = true;
  return get_property(bus, "ActiveState", on_active_state, state);
}

int on_unit_changed(sd_bus_message* message, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  if (state.requested || state.is_reading) return 0;
  const auto got = read_state(sd_bus_message_get_bus(message), state);
  if (!got) state.refused = got.error();
  return 0;
}

// Reports changes of the unit at state.path, and its present state. In this order: no change is
// missed.
Result<void> watch_state(sd_bus* bus, JobState& state) {
  const int code = sd_bus_match_signal_async(bus, nullptr, kName, state.path.c_str(), kProperties,
                                             "PropertiesChanged", on_unit_changed, nullptr, &state);
  if (code < 0) return bus_error(code, "match the signal PropertiesChanged");
  return read_state(bus, state);
}

Result<std::string> path_of(const std::string& unit) {
  char* raw = nullptr;
  const int code = sd_bus_path_encode(kUnits, unit.c_str(), &raw);
  if (code < 0) return bus_error(code, "make the path of " + unit);
  std::string path(raw);
  std::free(raw);
  return path;
}

// Of an alias, systemd reports changes at the path of the unit itself (src/core/dbus-unit.c
// bus_unit_send_change_signal()).
Result<void> follow_alias(sd_bus* bus, JobState& state) {
  std::string path = TRY(path_of(*state.id));
  if (path == state.path) return {};
  state.path = std::move(path);
  return watch_state(bus, state);
}

int on_id(sd_bus_message* reply, void* userdata, sd_bus_error*) {
  auto& state = *static_cast<JobState*>(userdata);
  on_property(reply, state, state.id);
  if (state.requested || !state.id) return 0;
  const auto followed = follow_alias(sd_bus_message_get_bus(reply), state);
  if (!followed) state.refused = followed.error();
  return 0;
}

// systemd loads a unit when its path is used.
Result<void> describe(sd_bus* bus, const std::string& unit, JobState& state) {
  const int code = sd_bus_call_method_async(bus, nullptr, kName, kPath, kManager, "GetUnitByPID",
                                            on_own_unit, &state, "u", 0U);  // 0: of the caller
  if (code < 0) return bus_error(code, "call GetUnitByPID");
  state.path = TRY(path_of(unit));
  TRY(get_property(bus, "Id", on_id, state));
  return watch_state(bus, state);
}

// The bus handles messages of one connection in order, so no job ends unseen.
Result<void> request(sd_bus* bus, const std::string& unit, JobState& state) {
  int code = sd_bus_match_signal_async(bus, nullptr, kName, kPath, kManager, "JobRemoved",
                                       on_job_removed, nullptr, &state);
  if (code < 0) return bus_error(code, "match the signal JobRemoved");
  code = sd_bus_call_method_async(bus, nullptr, kName, kPath, kManager, "Subscribe", on_subscribed,
                                  &state, nullptr);
  if (code < 0) return bus_error(code, "call Subscribe");
  return describe(bus, unit, state);
}

// Until the bus has something to do or the time is over; not at all if `busy`.
Result<void> wait_for_bus(sd_bus* bus, bool busy, MonotonicTime deadline,
                          const UnitRestartOptions& options) {
  const Duration left = deadline - SystemClock().now();
  if (left <= Duration{0}) return Error{ETIMEDOUT, ""};
  std::uint64_t due_us = 0;
  int code = sd_bus_get_timeout(bus, &due_us);
  if (code < 0) return bus_error(code, "sd_bus_get_timeout");
  const auto now_us = static_cast<std::uint64_t>(to_ns(SystemClock().now())) / 1000;
  const std::uint64_t bus_us = due_us > now_us ? due_us - now_us : 0;
  const auto left_us = static_cast<std::uint64_t>(left / std::chrono::microseconds(1));
  const int events = sd_bus_get_events(bus);
  if (events < 0) return bus_error(events, "sd_bus_get_events");
  std::array<pollfd, 2> fds{
      {{sd_bus_get_fd(bus), static_cast<short>(events), 0}, {options.cancelled, POLLIN, 0}}};
  const std::uint64_t wait_ms = busy ? 0 : std::min(bus_us, left_us) / 1000 + 1;
  if (::poll(fds.data(), fds.size(),
             static_cast<int>(std::min<std::uint64_t>(wait_ms, std::numeric_limits<int>::max()))) <
          0 &&
      errno != EINTR) {
    return errno_error("poll", "the connection to D-Bus");
  }
  if (fds[1].revents != 0) return Error{ECANCELED, "the agent does not wait for it any more"};
  return {};
}

Error overdue(const JobState& state, const UnitRestartOptions& options) {
  if (!state.requested && state.is_waiting) {
    return Error{EBUSY, fmt::format("systemd starts or stops it already ({})",
                                    state.active_state.value_or("unknown"))};
  }
  return Error{ETIMEDOUT, fmt::format("{} after {} s",
                                      state.requested ? "not done, though systemd may still do it,"
                                                      : "no answer of systemd",
                                      options.timeout / std::chrono::seconds(1))};
}

Result<void> wait_for_job(sd_bus* bus, const JobState& state, const UnitRestartOptions& options) {
  const MonotonicTime begun = SystemClock().now();
  while (!state.result && !state.refused && !state.has_stopped) {
    const bool is_waiting = state.is_waiting && !state.requested;
    const MonotonicTime deadline =
        begun + (is_waiting ? std::min(options.transition, options.timeout) : options.timeout);
    const int done = sd_bus_process(bus, nullptr);
    if (done < 0) return bus_error(done, "the connection to D-Bus was lost");
    const auto waited = wait_for_bus(bus, done > 0, deadline, options);
    if (!waited && waited.error().code == ETIMEDOUT) return overdue(state, options);
    TRY(waited);
  }
  if (state.refused) return *state.refused;
  if (state.has_stopped) return {};
  // src/core/job.c job_result_table: done, canceled, timeout, failed, dependency, skipped, ...
  if (*state.result != "done") return error(fmt::format("the job's result is {}", *state.result));
  return {};
}

Result<void> restart(const std::string& unit, const UnitRestartOptions& options, JobState& state) {
  const BusConnection bus = TRY(open_bus(options.bus_address));
  // By default sd-bus ends a call after 25 s, though systemd still executes it.
  const auto timeout_us =
      static_cast<std::uint64_t>(options.timeout / std::chrono::microseconds(1));
  if (const int code = sd_bus_set_method_call_timeout(bus.get(), timeout_us + 1'000'000);
      code < 0) {
    return bus_error(code, "sd_bus_set_method_call_timeout");
  }
  TRY(request(bus.get(), unit, state));
  return wait_for_job(bus.get(), state, options);
}

}  // namespace

bool systemd_is_running() {
  return sd_booted() > 0;
}

UnitRestartEnd restart_unit(const std::string& unit, const UnitRestartOptions& options) {
  JobState state;  // outlives the bus, whose callbacks use it
  const auto done = restart(unit, options, state);
  return {done ? std::nullopt : std::optional(done.error()), state.requested};
}

}  // namespace forestall::clients
