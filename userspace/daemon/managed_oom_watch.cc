// SPDX-License-Identifier: Apache-2.0
#include "daemon/managed_oom_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "base/start_thread.h"
#include "rulesets/managed_rulesets.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;
using rulesets::ManagedOomRules;

// The pause after a reading of all units, in lengths of the reading.
constexpr int kPauseFactor = 1000;

// At least 1: a time that has almost come must not be waited for in a loop.
int wait_ms(Duration left) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max()));
}

void drain_event(const UniqueFd& event) {
  eventfd_t ignored = 0;
  (void)::eventfd_read(event.get(), &ignored);  // fails if there was nothing
}

void signal_event(const UniqueFd& event) {
  (void)::eventfd_write(event.get(), 1);  // fails only if it is readable already
}

// A cgroup without a pattern is left out, with a warning.
ManagedOomRules rules_of(const std::vector<ReportedElement>& elements,
                         const rulesets::OomdConf& conf, std::set<std::string>& refused) {
  ManagedOomRules rules;
  for (const ReportedElement& each : elements) {
    if (rulesets::literal_pattern(each.element.path)) {
      rules.apply(each.element, conf);
    } else {
      refused.insert(each.reported_by);
    }
  }
  return rules;
}

std::shared_ptr<const std::vector<std::string>> monitored_by(const ManagedOomRules& rules) {
  std::set<std::string> paths = rules.swap;
  for (const auto& [path, rule] : rules.pressure) paths.insert(path);
  if (paths.empty()) return nullptr;
  return std::make_shared<const std::vector<std::string>>(paths.begin(), paths.end());
}

}  // namespace

Result<std::unique_ptr<ManagedOomWatch>> ManagedOomWatch::start(
    exports::Log& log, const Clock& clock, std::unique_ptr<ManagedOomSource> source,
    ManagedOomTimes times) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake || !ready) return errno_error("eventfd", "managedOOM");
  std::unique_ptr<ManagedOomWatch> watch(
      new ManagedOomWatch(log, clock, std::move(source), times, std::move(wake), std::move(ready)));
  watch->thread_ = TRY(start_thread("managed-oom", [raw = watch.get()] { raw->run(); }));
  return watch;
}

ManagedOomWatch::~ManagedOomWatch() {
  stopping_ = true;
  signal_event(wake_);
  if (thread_.joinable()) thread_.join();
}

void ManagedOomWatch::follow(const std::optional<rulesets::OomdConf>& conf) {
  {
    const std::lock_guard lock(mutex_);
    if (!conf) {
      state_.reset();
      in_force_.clear();
      monitored_.reset();
    } else {
      if (!state_) state_.emplace();
      settings_changed_ = settings_changed_ || state_->conf != *conf;
      state_->conf = *conf;
    }
  }
  signal_event(wake_);
}

bool ManagedOomWatch::take() {
  drain_event(ready_);
  const std::lock_guard lock(mutex_);
  return std::exchange(changed_, false);
}

std::vector<rulesets::Ruleset> ManagedOomWatch::in_force() const {
  const std::lock_guard lock(mutex_);
  return in_force_;
}

std::shared_ptr<const std::vector<std::string>> ManagedOomWatch::monitored() const {
  const std::lock_guard lock(mutex_);
  return monitored_;
}

void ManagedOomWatch::refused() {
  const std::lock_guard lock(mutex_);
  refused_ = true;
}

std::optional<ManagedOomSourceState> ManagedOomWatch::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool ManagedOomWatch::is_on() const {
  const std::lock_guard lock(mutex_);
  return state_.has_value();
}

void ManagedOomWatch::run() {
  ::prctl(PR_SET_NAME, "managed-oom");
  while (!stopping_) {
    if (!is_on()) {
      source_->disconnect();
      source_->forget();
      last_refresh_.reset();
      wait(MonotonicTime::max());
      continue;
    }
    const auto connected = run_connected();
    if (stopping_ || !is_on()) continue;
    if (connected) continue;
    source_->disconnect();
    note_problem(connected.error().text());
    forget_old_rules();
    wait(clock_.now() + times_.reconnect);
  }
}

// One wait for the source, and what it brought. An error: the connection is of no use any more.
Result<void> ManagedOomWatch::run_connected() {
  if (!source_->is_connected()) {
    TRY(source_->connect());
    last_all_.reset();
  }
  TRY(source_->process());
  if (take_settings() && last_refresh_) offer();
  if (const auto ready_by = source_->ready_by()) {
    wait(*ready_by);
    return {};
  }
  const MonotonicTime now = clock_.now();
  const bool all = !last_all_ || now >= *last_all_ + pause_;
  const MonotonicTime next = last_refresh_ ? *last_refresh_ + times_.least : now;
  const bool wanted = all || source_->has_changes();
  if (wanted && now >= next) {
    TRY(source_->refresh(all, [this] { return stopping_.load(); }));
    last_refresh_ = clock_.now();
    if (all) {
      last_all_ = last_refresh_;
      pause_ = std::clamp((*last_all_ - now) * kPauseFactor, times_.all, 2 * times_.all);
    }
    note_read();
    offer();
    return {};
  }
  wait(wanted ? next : *last_all_ + pause_);
  return {};
}

// For the source, if it is connected, and for follow().
void ManagedOomWatch::wait(MonotonicTime until) const {
  const int timeout = until == MonotonicTime::max() ? -1 : wait_ms(until - clock_.now());
  std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {-1, 0, 0}}};
  if (source_->is_connected()) fds[1] = {source_->fd(), source_->events(), 0};
  ::poll(fds.data(), fds.size(), timeout);
  drain_event(wake_);
}

bool ManagedOomWatch::take_settings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(settings_changed_, false);
}

void ManagedOomWatch::note_read() {
  const std::lock_guard lock(mutex_);
  if (state_) state_->read = clock_.now();
}

void ManagedOomWatch::offer() {
  rulesets::OomdConf conf;
  {
    const std::lock_guard lock(mutex_);
    if (!state_) return;
    conf = state_->conf;
  }
  std::set<std::string> refused;
  ManagedOomRules rules = rules_of(source_->elements(), conf, refused);
  set_rules(conf, std::move(rules));
  std::vector<std::string> problems = source_->problems();
  for (const std::string& each : refused) {
    problems.push_back(each + ": no rule can name its cgroup; it has none");
  }
  note_problem(problems.empty() ? ""
               : problems.size() == 1
                   ? problems.front()
                   : fmt::format("{} (and {} more)", problems.front(), problems.size() - 1));
}

void ManagedOomWatch::set_rules(const rulesets::OomdConf& conf, ManagedOomRules rules) {
  auto made = rulesets::managed_rulesets(rules, conf);
  auto monitored = monitored_by(rules);
  LogLine line("managed-oom");
  {
    const std::lock_guard lock(mutex_);
    if (!state_) return;
    line.field("swap", rules.swap.size()).field("pressure", rules.pressure.size());
    state_->rules = std::move(rules);
    monitored_ = std::move(monitored);
    const bool refused = std::exchange(refused_, false);
    if (made == in_force_ && !refused) return;
    in_force_ = std::move(made);
    changed_ = true;
  }
  signal_event(ready_);
  log_.write(LogLevel::info, line);
}

void ManagedOomWatch::forget_old_rules() {
  {
    const std::lock_guard lock(mutex_);
    if (!state_ || in_force_.empty()) return;
    if (state_->read && clock_.now() < *state_->read + times_.kept) return;
  }
  source_->forget();
  set_rules({}, {});
  log_.write(LogLevel::error, LogLine("managed-oom")
                                  .field("problem", "systemd could not be read for too long")
                                  .field("effect", "there are no rules until it can be read"));
}

// Once while it lasts.
void ManagedOomWatch::note_problem(const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (!state_ || std::exchange(state_->problem, problem) == problem || problem.empty()) return;
  }
  log_.write(LogLevel::warning, LogLine("managed-oom")
                                    .field("problem", problem)
                                    .field("in_force", "the rules that were read before"));
}

SharedValue<std::vector<rulesets::Ruleset>> with_managed_rules(
    const SharedValue<std::vector<rulesets::Ruleset>>& configured,
    const std::vector<rulesets::Ruleset>& managed) {
  if (managed.empty()) return configured;
  std::vector<rulesets::Ruleset> all;
  if (configured) all = *configured;
  all.insert(all.end(), managed.begin(), managed.end());
  return all;
}

}  // namespace forestall::daemon
