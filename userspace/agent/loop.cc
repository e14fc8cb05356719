// SPDX-License-Identifier: Apache-2.0
#include "agent/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include <deque>
#include <memory>

namespace forestall::agent {
namespace {

// sd-event dispatches the smallest number first: dying victims make room, then crossings, then
// everything that can wait.
constexpr std::int64_t kLadderPriority = -20;
constexpr std::int64_t kSourcePriority = -10;
constexpr std::int64_t kTimerPriority = -5;

struct EventDeleter {
  void operator()(sd_event* event) const { sd_event_unref(event); }
};
using EventLoop = std::unique_ptr<sd_event, EventDeleter>;

struct Running {
  Core* core;
  exports::Log* log;
  const LoopHooks* hooks;
  Watchdog* watchdog;
  sd_event_source* timer = nullptr;
};

struct SourceSlot {
  Running* running;
  sources::Source* source;
};

Result<void> check(int code, const char* what) {
  if (code < 0) return Error{-code, what};
  return {};
}

// Every callback may have moved the time of the next look.
int set_timer(Running& running) {
  const MonotonicTime next = running.core->next_look();
  if (running.watchdog != nullptr) running.watchdog->announce(next);
  const auto due = std::max<std::int64_t>(to_ns(next), 1000);
  sd_event_source_set_time(running.timer, static_cast<std::uint64_t>(due) / 1000);
  return sd_event_source_set_enabled(running.timer, SD_EVENT_ONESHOT);
}

int on_source(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* slot = static_cast<SourceSlot*>(userdata);
  slot->running->core->source_ready(*slot->source);
  return set_timer(*slot->running);
}

int on_ladder(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->ladder_ready();
  return set_timer(*running);
}

int on_guard(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->guard_ready();
  return set_timer(*running);
}

int on_reclaim(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->reclaim_ready();
  return set_timer(*running);
}

int on_foresight(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->foresight_ready();
  return set_timer(*running);
}

int on_watchdog(sd_event_source*, int, std::uint32_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->watchdog_ready();
  return set_timer(*running);
}

int on_time(sd_event_source*, std::uint64_t, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  running->core->time_passed();
  return set_timer(*running);
}

int on_reload(sd_event_source*, const signalfd_siginfo*, void* userdata) {
  auto* running = static_cast<Running*>(userdata);
  sd_notify(0, "RELOADING=1");
  auto config = running->hooks->reload();
  if (config) {
    running->core->reload(std::move(*config));
    running->log->write(exports::LogLevel::info, exports::LogLine("reloaded"));
  } else {
    running->log->write(exports::LogLevel::error,
                        exports::LogLine("reload-refused")
                            .field("error", config.error().text())
                            .field("in_force", "the previous configuration"));
  }
  sd_notify(0, "READY=1");
  return set_timer(*running);
}

Result<void> add_sources(sd_event* event, const Parts& parts, Running& running,
                         std::deque<SourceSlot>& slots) {
  for (sources::Source* source : parts.sources) {
    if (source->fd() < 0) continue;
    SourceSlot& slot = slots.emplace_back(SourceSlot{&running, source});
    sd_event_source* added = nullptr;
    TRY(check(sd_event_add_io(event, &added, source->fd(), EPOLLIN, on_source, &slot),
              "sd_event_add_io"));
    TRY(check(sd_event_source_set_priority(added, kSourcePriority), "sd_event priority"));
    TRY(check(sd_event_source_set_floating(added, 1), "sd_event floating"));
  }
  return {};
}

// What ends on a thread of its own, at the priority of what can wait, if it is given no other.
Result<void> add_job(sd_event* event, int fd, sd_event_io_handler_t on_end, Running& running,
                     std::int64_t priority = SD_EVENT_PRIORITY_NORMAL) {
  sd_event_source* added = nullptr;
  TRY(check(sd_event_add_io(event, &added, fd, EPOLLIN, on_end, &running), "sd_event_add_io"));
  TRY(check(sd_event_source_set_priority(added, priority), "sd_event priority"));
  return check(sd_event_source_set_floating(added, 1), "sd_event floating");
}

Result<void> add_the_rest(sd_event* event, const Parts& parts, Running& running) {
  sd_event_source* ladder = nullptr;
  TRY(check(sd_event_add_io(event, &ladder, parts.ladder->fd(), EPOLLIN, on_ladder, &running),
            "sd_event_add_io"));
  TRY(check(sd_event_source_set_priority(ladder, kLadderPriority), "sd_event priority"));
  TRY(check(sd_event_source_set_floating(ladder, 1), "sd_event floating"));
  TRY(check(sd_event_add_time(event, &running.timer, CLOCK_MONOTONIC, UINT64_MAX,
                              /*accuracy_us=*/1, on_time, &running),
            "sd_event_add_time"));
  TRY(check(sd_event_source_set_priority(running.timer, kTimerPriority), "sd_event priority"));
  for (const int stop : {SIGTERM, SIGINT}) {
    TRY(check(sd_event_add_signal(event, nullptr, stop, nullptr, nullptr), "sd_event_add_signal"));
  }
  TRY(check(sd_event_add_signal(event, nullptr, SIGHUP, on_reload, &running),
            "sd_event_add_signal"));
  if (const auto end = running.hooks->end_at) {
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
  Running running{&core, parts.log, &hooks, parts.watchdog};
  std::deque<SourceSlot> slots;  // stable addresses: sd-event keeps pointers to them
  TRY(add_sources(event.get(), parts, running, slots));
  if (parts.reclaim != nullptr) {
    TRY(add_job(event.get(), parts.reclaim->fd(), on_reclaim, running));
  }
  if (parts.watchdog != nullptr) {
    TRY(add_job(event.get(), parts.watchdog->fd(), on_watchdog, running));
  }
  // Before any crossing: whom the guard shot must be known when the next victim is chosen.
  if (parts.guard != nullptr) {
    TRY(add_job(event.get(), parts.guard->fd(), on_guard, running, kLadderPriority));
  }
  if (parts.foresight != nullptr) {
    TRY(add_job(event.get(), parts.foresight->fd(), on_foresight, running));
  }
  TRY(add_the_rest(event.get(), parts, running));
  core.start();
  set_timer(running);
  if (hooks.ready) hooks.ready();
  const int code = sd_event_loop(event.get());
  sd_notify(0, "STOPPING=1");
  sd_event_source_unref(running.timer);
  return check(code, "sd_event_loop");
}

}  // namespace forestall::agent
