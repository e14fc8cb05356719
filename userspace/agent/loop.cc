// SPDX-License-Identifier: Apache-2.0
#include "agent/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include <deque>
#include <memory>

#include "agent/loop_pauses.h"

namespace forestall::agent {
namespace {

// sd-event dispatches the smallest number first: dying victims make room, then crossings, then
// everything that can wait. First of all a pause: the events that happened in it are evaluated
// after it was noted.
constexpr std::int64_t kContinuedPriority = -30;
constexpr std::int64_t kLadderPriority = -20;
constexpr std::int64_t kSourcePriority = -10;
constexpr std::int64_t kTimerPriority = -5;

struct EventDeleter {
  void operator()(sd_event* event) const { sd_event_unref(event); }
};
using EventLoop = std::unique_ptr<sd_event, EventDeleter>;

struct SourceDeleter {
  void operator()(sd_event_source* source) const { sd_event_source_unref(source); }
};
using EventSource = std::unique_ptr<sd_event_source, SourceDeleter>;

struct Running {
  Core& core;
  const Parts& parts;
  const LoopHooks& hooks;
  EventSource timer = nullptr;
  LoopPauses pauses{};
};

struct SourceSlot {
  Running* running;
  sources::Source* source;
};

Result<void> check(int code, const char* what) {
  if (code < 0) return Error{-code, what};
  return {};
}

// Every callback begins with one of these two. Returns when.
MonotonicTime begin(Running& running) {
  const MonotonicTime now = running.parts.clock.now();
  running.parts.counts->work.begin(now);
  running.pauses.began(now);
  return now;
}

void begin_noting_lateness(Running& running) {
  const auto pause = running.pauses.before(begin(running));
  if (pause.to - pause.due >= LoopPauses::kPauseMin) {
    running.core.resumed(pause, /*continued=*/false);
  }
}

// Every callback ends with it, because it may have moved the time of the next evaluation.
int set_timer(Running& running) {
  const MonotonicTime next = running.core.next_due();
  running.pauses.ended(running.parts.clock.now(), next);
  running.parts.watchdog.announce(next);
  const auto due = std::max<std::int64_t>(to_ns(next), 1000);
  sd_event_source_set_time(running.timer.get(), static_cast<std::uint64_t>(due) / 1000);
  const int code = sd_event_source_set_enabled(running.timer.get(), SD_EVENT_ONESHOT);
  const auto stretch = running.parts.counts->work.end();
  if (const auto line = exports::long_stretch_line(stretch)) {
    running.parts.log.write(exports::LogLevel::warning, *line);
  }
  return code;
}

int on_source(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* slot = static_cast<SourceSlot*>(userdata);
  begin_noting_lateness(*slot->running);
  slot->running->core.source_ready(*slot->source);
  return set_timer(*slot->running);
}

// For a part whose descriptor became readable.
template <void (Core::*on_ready)()>
int on_part(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  begin_noting_lateness(*running);
  (running->core.*on_ready)();
  return set_timer(*running);
}

int on_time(sd_event_source*, std::uint64_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  begin_noting_lateness(*running);
  running->core.time_passed();
  return set_timer(*running);
}

// The process was stopped; SIGCONT ends that whatever its disposition.
int on_continued(sd_event_source*, const signalfd_siginfo*, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  const MonotonicTime now = begin(*running);
  running->core.resumed(running->pauses.before_continued(now), /*continued=*/true);
  return set_timer(*running);
}

int on_reload(sd_event_source*, const signalfd_siginfo*, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  static_cast<void>(begin(*running));
  sd_notify(0, "RELOADING=1");
  auto config = running->hooks.reload();
  if (config) {
    running->core.reload(std::move(*config));
    running->parts.log.write(exports::LogLevel::info, exports::LogLine("reloaded"));
  } else {
    running->parts.log.write(exports::LogLevel::error,
                             exports::LogLine("reload-refused")
                                 .field("error", config.error().text())
                                 .field("in_force", "the previous configuration"));
  }
  sd_notify(0, "READY=1");
  return set_timer(*running);
}

int on_change(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  static_cast<void>(begin(*running));
  if (auto config = running->hooks.take_change()) running->core.reload(std::move(*config));
  return set_timer(*running);
}

// The event loop owns a floating source and frees it with itself.
Result<void> add_io(sd_event* event, int fd, sd_event_io_handler_t on_ready, void* userdata,
                    std::int64_t priority) {
  sd_event_source* raw = nullptr;
  TRY(check(sd_event_add_io(event, &raw, fd, EPOLLIN, on_ready, userdata), "sd_event_add_io"));
  const EventSource added(raw);
  TRY(check(sd_event_source_set_priority(raw, priority), "sd_event priority"));
  return check(sd_event_source_set_floating(raw, 1), "sd_event floating");
}

Result<void> add_sources(sd_event* event, const Parts& parts, Running& running,
                         std::deque<SourceSlot>& slots) {
  for (sources::Source* source : parts.sources) {
    if (source->fd() < 0) continue;
    SourceSlot& slot = slots.emplace_back(SourceSlot{&running, source});
    TRY(add_io(event, source->fd(), on_source, &slot, kSourcePriority));
  }
  return {};
}

Result<void> add_parts(sd_event* event, const Parts& parts, Running& running) {
  const struct {
    int fd;
    sd_event_io_handler_t on_ready;
    std::int64_t priority;
  } all[] = {
      {parts.ladder.fd(), on_part<&Core::ladder_ready>, kLadderPriority},
      // Before any crossing: the guard's victim must be known when the next one is selected.
      {parts.guard.fd(), on_part<&Core::guard_ready>, kLadderPriority},
      // In turn with events, which would hold a finished list back until it has expired.
      {parts.guard.lists_fd(), on_part<&Core::guard_lists_ready>, kSourcePriority},
      // What ends on a thread of its own can wait.
      {parts.ladder.pins_fd(), on_part<&Core::pins_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.reclaim.fd(), on_part<&Core::reclaim_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.watchdog.fd(), on_part<&Core::watchdog_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.scanner.fd(), on_part<&Core::tree_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.rules.fd(), on_part<&Core::rules_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.hooks.fd(), on_part<&Core::hooks_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.container_pressure.fd(), on_part<&Core::pressure_ready>, SD_EVENT_PRIORITY_NORMAL},
      {parts.forecast.fd(), on_part<&Core::forecast_ready>, SD_EVENT_PRIORITY_NORMAL},
  };
  for (const auto& part : all) {
    if (part.fd < 0) continue;  // the agent runs without it
    TRY(add_io(event, part.fd, part.on_ready, &running, part.priority));
  }
  return {};
}

Result<void> add_continued(sd_event* event, Running& running) {
  sd_event_source* raw = nullptr;
  TRY(check(sd_event_add_signal(event, &raw, SIGCONT, on_continued, &running),
            "sd_event_add_signal"));
  const EventSource added(raw);
  TRY(check(sd_event_source_set_priority(raw, kContinuedPriority), "sd_event priority"));
  return check(sd_event_source_set_floating(raw, 1), "sd_event floating");
}

Result<void> add_times_and_signals(sd_event* event, Running& running) {
  sd_event_source* timer = nullptr;
  TRY(check(sd_event_add_time(event, &timer, CLOCK_MONOTONIC, UINT64_MAX,
                              /*accuracy_us=*/1, on_time, &running),
            "sd_event_add_time"));
  running.timer.reset(timer);
  TRY(check(sd_event_source_set_priority(timer, kTimerPriority), "sd_event priority"));
  for (const int stop : {SIGTERM, SIGINT}) {
    TRY(check(sd_event_add_signal(event, nullptr, stop, nullptr, nullptr), "sd_event_add_signal"));
  }
  TRY(check(sd_event_add_signal(event, nullptr, SIGHUP, on_reload, &running),
            "sd_event_add_signal"));
  TRY(add_continued(event, running));
  if (const auto end = running.hooks.end_at) {
    // Without a handler the loop ends.
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(to_ns(*end), 1000)) / 1000;
    TRY(check(
        sd_event_add_time(event, nullptr, CLOCK_MONOTONIC, us, /*accuracy_us=*/1, nullptr, nullptr),
        "sd_event_add_time"));
  }
  return check(sd_event_set_watchdog(event, 1), "sd_event_set_watchdog");
}

}  // namespace

Result<void> run_loop(Core& core, const Parts& parts, const LoopHooks& hooks) {
  sd_event* raw = nullptr;
  TRY(check(sd_event_new(&raw), "sd_event_new"));
  const EventLoop event(raw);
  Running running{core, parts, hooks};
  std::deque<SourceSlot> slots;  // stable addresses: sd-event keeps pointers to them
  TRY(add_sources(event.get(), parts, running, slots));
  TRY(add_parts(event.get(), parts, running));
  TRY(add_times_and_signals(event.get(), running));
  for (const int fd : hooks.change_fds) {
    TRY(add_io(event.get(), fd, on_change, &running, SD_EVENT_PRIORITY_NORMAL));
  }
  core.start();
  set_timer(running);
  if (hooks.ready) hooks.ready();
  const int code = sd_event_loop(event.get());
  // An agent that ends on request must not leave lists in force while it writes its last files,
  // unless they are for the time until the next agent.
  parts.guard.leave();
  sd_notify(0, "STOPPING=1");
  return check(code, "sd_event_loop");
}

}  // namespace forestall::agent
