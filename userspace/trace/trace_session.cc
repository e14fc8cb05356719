// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "forestall/v1/service.pb.h"
#include "kernel/bpf_counters.h"
#include "messages/convert.h"
#include "service/events.h"

namespace forestall::trace {
namespace {

constexpr Duration kAgentPatience = std::chrono::seconds(2);
// Short, for an agent that was connected before: the trace continues meanwhile.
constexpr Duration kAgentAgainPatience = std::chrono::milliseconds(50);

// Kinds with a length, whose sums the kernel collects.
constexpr bool is_span(TraceKind kind) {
  return kind <= TraceKind::throttled;
}

std::uint64_t dropped_in(const abi_trace_totals& totals) {
  std::uint64_t sum = 0;
  for (const abi_trace_total& each : totals.kinds) sum += each.dropped;
  return sum;
}

std::uint64_t failed_in(const abi_trace_totals& totals) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ABI_TRACE_FAILURE_COUNT; ++i) {
    if (i != ABI_TRACE_FAILURE_unpaired) sum += totals.failures[i];
  }
  return sum;
}

}  // namespace

TraceSession::TraceSession(TraceQuestion question, const kernel::CgroupTree& tree,
                           const FeatureSet& disabled, std::string agent_socket,
                           TraceOutput& output)
    : question_(std::move(question)),
      tree_(tree),
      disabled_(disabled),
      agent_socket_(std::move(agent_socket)),
      output_(output),
      names_(tree),
      events_(names_, multi_generational_lru()),
      summary_(names_, events_, question_.top),
      poll_(tree, question_.choice.all()) {}

// ---- opening --------------------------------------------------------------------------------

void TraceSession::open_programs() {
  kernel::TraceSelection selection;
  selection.kinds.reset();
  for (std::size_t i = 0; i < kTraceKinds; ++i) {
    const auto kind = abi_of(trace_kind_at(i));
    if (kind && question_.kinds.test(i)) selection.kinds.set(*kind);
  }
  if (selection.kinds.none()) return;
  // Names of cgroups that are created and removed during the trace.
  selection.kinds.set(ABI_TRACE_path).set(ABI_TRACE_removed);
  selection.reports_events = !question_.summary;
  selection.reports_begins = question_.begins;
  selection.sums = question_.summary.has_value();
  selection.filters = !question_.choice.all();
  selection.shortest = question_.shortest;
  selection.ring_bytes = question_.ring_bytes;
  auto loaded = kernel::TracePrograms::load(selection, tree_, disabled_);
  if (loaded) {
    programs_ = std::move(loaded).value();
  } else {
    no_programs_ = loaded.error().text();
  }
}

void TraceSession::open_agent(Duration patience) {
  if (!selects(TraceKind::agent)) return;
  if (!question_.with_agent) {
    no_agent_ = "--no-agent";
    return;
  }
  if (agent_socket_.empty()) {
    no_agent_ = "apiSocket is off in the configuration";
    return;
  }
  auto stream =
      wire::GrpcStream::open(agent_socket_, "/forestall.v1.Agent/WatchEvents", "", patience);
  if (stream) {
    agent_ = std::move(stream).value();
    agent_since_ = SystemClock().now();
    agent_gone_ = false;
    return;
  }
  const int code = stream.error().code;
  no_agent_ = code == ENOENT || code == ECONNREFUSED
                  ? fmt::format("no agent serves gRPC at {}", agent_socket_)
                  : stream.error().text();
}

// Reads the kernel's log if BPF reports no OOM kills.
void TraceSession::open_log() {
  if (!selects(TraceKind::oom) || sight_of(TraceKind::oom).seen()) return;
  if (has(disabled_, Feature::oom_log)) {
    no_log_ = "oom-log is turned off by --disable-feature";
    return;
  }
  auto log = sources::OomLog::open();
  if (log) {
    log_ = std::move(log).value();
  } else {
    no_log_ = log.error().text();
  }
}

void TraceSession::include_cgroup(CgroupId id, const std::string& path) {
  if (!question_.choice.all() && programs_ && question_.choice.names(path)) {
    // Beyond 4096 cgroups, the totals still count it.
    if (const auto added = programs_->include_cgroup(id); !added) ++unwanted_;
  }
  const bool polled = selects(TraceKind::pressure) || selects(TraceKind::usage) ||
                      selects(TraceKind::reclaim_count);
  if (polled && question_.choice.covers(path) && path != "/" && !poll_.add(id, path)) ++unpolled_;
}

void TraceSession::add_cgroups() {
  const auto walked = names_.walk(SystemClock().now());
  if (!walked) return;
  std::vector<std::pair<std::string, CgroupId>> all;
  names_.visit([&](CgroupId id, const std::string& path) { all.emplace_back(path, id); });
  // Cgroups near the root first: if there are too many to poll, these show the most.
  std::ranges::sort(all, {}, [](const auto& each) {
    return std::pair(std::ranges::count(each.first, '/'), each.first);
  });
  unpolled_ = 0;
  for (const auto& [path, id] : all) include_cgroup(id, path);
}

bool TraceSession::sees(abi_trace_kind kind) const {
  if (!programs_) return false;
  return std::ranges::any_of(programs_->reports(), [&](const kernel::TraceKindReport& report) {
    return report.state == FeatureState::in_use && report.kind == kind;
  });
}

Tier TraceSession::tier() const {
  if (!programs_) return Tier::files;
  return sees(ABI_TRACE_stall) ? Tier::full : Tier::tracepoint;
}

v1::TraceSight TraceSession::sight_of(TraceKind kind) const {
  v1::TraceSight sight;
  sight.set_kind(std::string(trace_word(kind)));
  const auto abi = abi_of(kind);
  if (abi) {
    const std::string instead =
        kind == TraceKind::oom ? (log_ ? "read from the kernel's log" : no_log_)
        : is_span(kind)        ? "pressure and reclaim-count cover windows of one second instead"
                               : "";
    sight.set_evidence(no_programs_ + (instead.empty() ? "" : "; " + instead));
    if (programs_) {
      for (const kernel::TraceKindReport& report : programs_->reports()) {
        if (report.kind != *abi) continue;
        sight.set_seen(report.state == FeatureState::in_use);
        sight.set_evidence(report.evidence);
        if (!sight.seen() && !instead.empty()) *sight.mutable_evidence() += "; " + instead;
      }
    }
    if (kind == TraceKind::oom && log_) sight.set_seen(true);
    return sight;
  }
  if (kind == TraceKind::agent) {
    sight.set_seen(agent_ != nullptr);
    sight.set_evidence(agent_ ? "decisions of the agent at " + agent_socket_ : no_agent_);
    return sight;
  }
  sight.set_seen(true);
  std::string files = "files, every second";
  if (unpolled_ > 0) {
    files += fmt::format("; {} cgroups beyond the first {} are not", unpolled_,
                         sources::PressurePoll::kCgroupsMax);
  }
  if (kind == TraceKind::pressure && tree_.unified_fd() < 0) {
    files += "; cgroups of v1 have no PSI of their own";
  } else if (kind == TraceKind::pressure && tree_.hybrid()) {
    files += "; cgroups of v1 have PSI only if the cgroup2 mount has the same path";
  }
  sight.set_evidence(std::move(files));
  return sight;
}

v1::Event TraceSession::start_event() const {
  v1::Event event;
  event.set_at_ns(to_ns(began_));
  v1::TraceStartEvent& start = *event.mutable_trace_start();
  start.set_version(FORESTALL_VERSION);
  utsname names{};
  if (::uname(&names) == 0) start.set_kernel(names.release);
  start.set_tier(messages::to_proto(tier()));
  for (std::size_t i = 0; i < kTraceKinds; ++i) {
    if (question_.kinds.test(i)) *start.add_sights() = sight_of(trace_kind_at(i));
  }
  return event;
}

// ---- taking ---------------------------------------------------------------------------------

void TraceSession::report(const v1::Event& event) {
  // One batch may contain more events than --count allows.
  if (question_.count > 0 && reported_ >= question_.count) return;
  output_.write(event);
  ++reported_;
}

void TraceSession::report_lost(std::uint64_t count, const char* where) {
  v1::Event event;
  event.set_at_ns(to_ns(SystemClock().now()));
  event.mutable_lost()->set_count(count);
  event.mutable_lost()->set_where(where);
  events_.stamp(event);
  report(event);
}

void TraceSession::take_record(const abi_trace_event& record, MonotonicTime now) {
  if (question_.count > 0 && reported_ >= question_.count) return;
  const v1::Event* event = events_.of(record, now);
  if (event == nullptr) return;
  if (event->has_cgroup_change()) {
    if (!event->cgroup_change().removed()) {
      include_cgroup({record.cgroup}, event->cgroup());
    } else if (!question_.choice.all()) {
      programs_->unwant({record.cgroup});
    }
    if (!selects(TraceKind::cgroup)) return;
  }
  // The BPF programs filter by the cgroup of a task; these records have no task.
  const bool chosen = record.kind < ABI_TRACE_SPANS || question_.choice.covers(event->cgroup());
  if (!chosen) return;
  if (event->has_oom_kill()) ++kills_;
  report(*event);
}

void TraceSession::take_records() {
  if (!programs_) return;
  const MonotonicTime now = SystemClock().now();
  const std::size_t visited =
      programs_->drain([&](const abi_trace_event& record) { take_record(record, now); });
  rests_ = visited > 0 ? kRestsWithoutNews : std::max(rests_ - 1, 0);
  more_ = visited == kernel::TracePrograms::kDrainMax;
}

void TraceSession::take_agent() {
  if (!agent_) return;
  agent_->advance();
  while (const auto message = agent_->next()) {
    v1::WatchEventsResponse response;
    if (!response.ParseFromString(*message)) continue;
    v1::Event& event = *response.mutable_event();
    if (event.has_lost()) agent_lost_ += event.lost().count();
    // If the kernel's OOM events are traced, the agent's copies are dropped.
    if (event.has_oom_kill() && sight_of(TraceKind::oom).seen()) continue;
    if (!event.cgroup().empty() && !question_.choice.covers(event.cgroup())) continue;
    if (const std::string pod = pod_of(event.cgroup()); !pod.empty()) event.set_pod_uid(pod);
    // Lost events have no time.
    if (!event.has_wall_time()) events_.stamp(event);
    report(event);
  }
  if (agent_->end()) {
    no_agent_ = "the agent ended the call: " + agent_->end()->message;
    agent_.reset();
    // If the agent hung up at once, it refuses the stream: do not reconnect.
    agent_gone_ = SystemClock().now() - agent_since_ >= kPollEvery;
    report_lost(0, "agent");
  }
}

void TraceSession::take_log() {
  if (!log_) return;
  std::vector<Wake> ignored;
  log_->drain(SystemClock().now(), ignored);
  for (const OomKillEvent& kill : log_->take_kills()) {
    const v1::Event& event = events_.of(kill);
    if (!question_.choice.covers(event.cgroup())) continue;
    ++kills_;
    report(event);
  }
}

void TraceSession::report_readings(const std::vector<sources::PressureReading>& readings) {
  const bool single_reclaims = sees(ABI_TRACE_memcg_reclaim) || sees(ABI_TRACE_direct_reclaim);
  for (const sources::PressureReading& reading : readings) {
    v1::Event event;
    const auto report_it = [&] {
      events_.place(reading.cgroup, to_ns(last_tick_), last_tick_, event);
      report(event);
    };
    if (selects(TraceKind::pressure)) {
      if (const auto pressure = pressure_of(reading)) {
        *event.mutable_pressure() = *pressure;
        report_it();
      }
    }
    if (selects(TraceKind::usage)) {
      usage_.read(reading, [&](const v1::UsageEvent& usage) {
        *event.mutable_usage() = usage;
        report_it();
      });
    }
    // Single reclaims are more exact, if they are traced.
    if (!selects(TraceKind::reclaim_count) || (single_reclaims && !question_.kinds_given)) continue;
    if (const auto count = reclaim_count_of(reading)) {
      *event.mutable_reclaim_count() = *count;
      report_it();
    }
  }
}

// Failures in the kernel or in BPF maps.
std::uint64_t TraceSession::failures(const abi_trace_totals& totals) const {
  return failed_in(totals) + programs_->passed_over() + unwanted_;
}

// Losses are reported when they occur, and in the totals.
void TraceSession::report_drops() {
  if (!programs_) return;
  const auto totals = programs_->totals();
  if (!totals) return;
  const auto report_more = [this](std::uint64_t now, std::uint64_t& before, const char* where) {
    if (now == before) return;
    report_lost(now - std::exchange(before, now), where);
  };
  report_more(dropped_in(*totals), dropped_reported_, "kernel");
  // If path records were dropped, their paths are resolved from the inode.
  const std::uint64_t names = totals->kinds[ABI_TRACE_path].dropped;
  if (names != std::exchange(names_lost_, names)) add_cgroups();
  report_more(failures(*totals), failed_reported_, "kernel-maps");
}

// Sums of removed cgroups are deleted after they are read: the map has limited room.
std::vector<kernel::TraceSum> TraceSession::take_sums() const {
  if (!programs_) return {};
  return programs_->sums([this](CgroupId id) { return names_.is_removed(id); })
      .optional()
      .value_or(std::vector<kernel::TraceSum>());
}

// Sums and pressure of the last window.
void TraceSession::report_window(const std::vector<sources::PressureReading>& readings,
                                 Duration window, MonotonicTime now) {
  v1::Event event;
  *event.mutable_summary() = summary_.since_last(
      take_sums(),
      selects(TraceKind::pressure) ? readings : std::vector<sources::PressureReading>(), window,
      now);
  const bool any = event.summary().sums_size() > 0 || event.summary().pressures_size() > 0;
  // The last window is short and usually empty.
  if (!any && over()) return;
  event.set_at_ns(to_ns(now));
  events_.stamp(event);
  report(event);
}

void TraceSession::report_polled(MonotonicTime now) {
  const Duration window = now - std::exchange(last_tick_, now);
  events_.adjust_clock();
  const auto readings = poll_.poll(now);
  if (question_.summary) {
    report_window(readings, window, now);
  } else {
    report_readings(readings);
  }
  usage_.keep(readings);
}

void TraceSession::tick(MonotonicTime now) {
  if (now < next_tick_) return;
  const Duration every = question_.summary.value_or(kPollEvery);
  next_tick_ += every;
  // Missed ticks are skipped.
  if (next_tick_ <= now) next_tick_ = now + every;
  // Without cgroup events, the tree is scanned for new cgroups.
  if (!sees(ABI_TRACE_path) && now >= next_walk_) {
    next_walk_ = now + kPollEvery;
    add_cgroups();
  }
  if (agent_gone_) open_agent(kAgentAgainPatience);
  report_polled(now);
  report_drops();
}

// ---- running --------------------------------------------------------------------------------

bool TraceSession::over() const {
  if (stopped_ || broken_) return true;
  if (ends_ && SystemClock().now() >= *ends_) return true;
  return question_.count > 0 && reported_ >= question_.count;
}

// Waits for the next event. While records remain, it only waits for a short time.
void TraceSession::wait(int stop_fd) {
  const bool asleep = programs_ && rests_ == 0;
  if (asleep) programs_->about_to_wait();
  std::array<pollfd, 4> fds{{{stop_fd, POLLIN, 0},
                             {asleep ? programs_->ring_fd() : -1, POLLIN, 0},
                             {agent_ ? agent_->fd() : -1, agent_ ? agent_->events() : short{0}, 0},
                             {log_ ? log_->fd() : -1, POLLIN, 0}}};
  const MonotonicTime now = SystemClock().now();
  MonotonicTime until = next_tick_;
  if (ends_) until = std::min(until, *ends_);
  if (programs_ && !asleep) until = std::min(until, more_ ? now : now + kRest);
  const Duration left = std::max(until - now, Duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec patience{seconds.count(), (left - seconds).count()};
  if (::ppoll(fds.data(), fds.size(), &patience, nullptr) < 0) return;
  stopped_ = fds[0].revents != 0;
  if (fds[2].revents != 0) take_agent();
  if (fds[3].revents != 0) take_log();
}

Result<void> TraceSession::run(int stop_fd) {
  open_programs();
  open_agent(kAgentPatience);
  open_log();
  add_cgroups();
  began_ = SystemClock().now();
  const v1::Event start = start_event();
  const bool sees = std::ranges::any_of(start.trace_start().sights(),
                                        [](const v1::TraceSight& each) { return each.seen(); });
  if (!sees) {
    std::string why;
    for (const v1::TraceSight& each : start.trace_start().sights()) {
      why += fmt::format("{}{}: {}", why.empty() ? "" : "\n  ", each.kind(), each.evidence());
    }
    return error("no requested kind of event is available on this host:\n  " + why);
  }
  if (question_.duration) ends_ = began_ + *question_.duration;
  last_tick_ = began_;
  next_tick_ = began_ + question_.summary.value_or(kPollEvery);
  v1::Event stamped = start;
  events_.stamp(stamped);
  output_.write(stamped);
  if (!question_.summary) output_.write_head();
  // Usage lines are crossed relative to this first reading.
  const auto first = poll_.poll(began_);
  if (!question_.summary) report_readings(first);
  if (programs_ && question_.summary) {
    // Discards what was summed before the first window.
    (void)summary_.since_last(take_sums(), {}, Duration(1), began_);
  }
  while (!over()) {
    broken_ = !output_.flush();
    if (!broken_) wait(stop_fd);
    take_records();
    tick(SystemClock().now());
  }
  finish();
  if (output_.failure()) return *output_.failure();
  return {};
}

void TraceSession::finish() {
  if (programs_) programs_->stop();
  do take_records();
  while (more_);
  take_log();
  // The last, incomplete window.
  if (question_.summary && (question_.count == 0 || reported_ < question_.count)) {
    report_polled(SystemClock().now());
  }
  report_drops();
  v1::Event event;
  event.set_at_ns(to_ns(SystemClock().now()));
  events_.stamp(event);
  v1::TraceEndEvent& end = *event.mutable_trace_end();
  end.set_length_ns((SystemClock().now() - began_).count());
  if (programs_) {
    if (const auto totals = programs_->totals()) {
      for (const kernel::TraceKindReport& report : programs_->reports()) {
        if (report.kind >= ABI_TRACE_SPANS || report.state != FeatureState::in_use) continue;
        const abi_trace_total& total = totals->kinds[report.kind];
        v1::SpanTotal& out = *end.add_totals();
        out.set_kind(span_kind_of(report.kind));
        out.set_count(total.count);
        out.set_length_ns(static_cast<std::int64_t>(total.ns));
        out.set_scanned_pages(events_.scanned(total.scanned, total.taken));
        out.set_reclaimed_pages(total.reclaimed);
        out.set_reported(total.reported);
        out.set_passed_over(total.passed);
        out.set_dropped(total.dropped);
      }
      end.set_dropped_in_kernel(dropped_in(*totals));
      end.set_failed_in_kernel(failures(*totals));
      end.set_unpaired(totals->failures[ABI_TRACE_FAILURE_unpaired]);
      std::vector<BpfCounter> counters;
      kernel::append_failures("tracer", *totals, counters);
      for (const BpfCounter& each : counters) *end.add_bpf_counters() = messages::to_proto(each);
    }
  }
  end.set_oom_kills(kills_);
  end.set_reported(reported_);
  end.set_dropped_by_agent(agent_lost_);
  if (log_) end.set_dropped_in_log(log_->lost());
  output_.write(event);
  output_.flush();
}

}  // namespace forestall::trace
