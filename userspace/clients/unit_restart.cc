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
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace forestall::clients {
namespace {

constexpr const char* kName = "org.freedesktop.systemd1";
constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";
// Jobs that ended before the reply with the path of ours; older ones are dropped.
constexpr std::size_t kEndedJobsMax = 256;

struct BusDeleter {
  // Without a flush, which would wait.
  void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
};
using Bus = std::unique_ptr<sd_bus, BusDeleter>;

struct EndedJob {
  std::string path;
  std::string result;
};

// What the callbacks found.
struct JobState {
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

Result<Bus> open_bus(const std::string& address) {
  sd_bus* raw = nullptr;
  if (address.empty()) {
    const int code = sd_bus_open_system(&raw);
    if (code < 0) return bus_error(code, "connect to the system bus of D-Bus");
    return Bus(raw);
  }
  int code = sd_bus_new(&raw);
  if (code < 0) return bus_error(code, "sd_bus_new");
  Bus bus(raw);
  code = sd_bus_set_address(raw, address.c_str());
  if (code >= 0) code = sd_bus_set_bus_client(raw, 1);
  if (code >= 0) code = sd_bus_start(raw);
  if (code < 0) return bus_error(code, "connect to " + address);
  return bus;
}

// The bus handles messages of one connection in order, so no job ends unseen.
Result<void> request(sd_bus* bus, const std::string& unit, JobState& state) {
  int code = sd_bus_match_signal_async(bus, nullptr, kName, kPath, kManager, "JobRemoved",
                                       on_job_removed, nullptr, &state);
  if (code < 0) return bus_error(code, "match the signal JobRemoved");
  code = sd_bus_call_method_async(bus, nullptr, kName, kPath, kManager, "Subscribe", on_subscribed,
                                  &state, nullptr);
  if (code < 0) return bus_error(code, "call Subscribe");
  code = sd_bus_call_method_async(bus, nullptr, kName, kPath, kManager, "RestartUnit",
                                  on_restart_reply, &state, "ss", unit.c_str(), "replace");
  if (code < 0) return bus_error(code, "call RestartUnit");
  state.requested = true;
  return {};
}

// Until the bus has something to do or the time is over.
Result<void> wait_for_bus(sd_bus* bus, MonotonicTime deadline, const UnitRestartOptions& options) {
  const Duration left = deadline - SystemClock().now();
  if (left <= Duration{0}) {
    return Error{ETIMEDOUT, fmt::format("not done after {} s; systemd may still do it",
                                        options.timeout / std::chrono::seconds(1))};
  }
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
  const std::uint64_t wait_ms = std::min(bus_us, left_us) / 1000 + 1;
  if (::poll(fds.data(), fds.size(),
             static_cast<int>(std::min<std::uint64_t>(wait_ms, std::numeric_limits<int>::max()))) <
          0 &&
      errno != EINTR) {
    return errno_error("poll", "the connection to D-Bus");
  }
  if (fds[1].revents != 0) return Error{ECANCELED, "the agent does not wait for it any more"};
  return {};
}

Result<void> wait_for_job(sd_bus* bus, const JobState& state, const UnitRestartOptions& options) {
  const MonotonicTime deadline = SystemClock().now() + options.timeout;
  while (!state.result && !state.refused) {
    const int done = sd_bus_process(bus, nullptr);
    if (done < 0) return bus_error(done, "the connection to D-Bus was lost");
    if (done == 0) TRY(wait_for_bus(bus, deadline, options));
  }
  if (state.refused) return *state.refused;
  // src/core/job.c job_result_table: done, canceled, timeout, failed, dependency, skipped, ...
  if (*state.result != "done") return error(fmt::format("the job's result is {}", *state.result));
  return {};
}

Result<void> restart(const std::string& unit, const UnitRestartOptions& options, JobState& state) {
  const Bus bus = TRY(open_bus(options.bus_address));
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
