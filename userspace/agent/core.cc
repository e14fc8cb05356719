// SPDX-License-Identifier: Apache-2.0
#include "agent/core.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "policy/capacity_lines.h"
#include "policy/deadlines.h"
#include "sources/poll_source.h"

namespace forestall::agent {
namespace {

// Kills begun in one look before the loop gets its turn again. Each is for another subject, or for
// the next victim of one whose memory the last victim cannot satisfy.
constexpr int kMaxKillsPerLook = 16;

// A line nearer than this to the present usage would fire before the loop is back in epoll: memcg
// charges come in batches of 64 pages per CPU (mm/memcontrol.c MEMCG_CHARGE_BATCH), so that
// usage itself is no finer.
constexpr Bytes kNearestLine = kib(256);

constexpr Duration kShortestHold = std::chrono::milliseconds(10);
constexpr Duration kLongestHold = std::chrono::seconds(1);

// Without a source that tells of new cgroups, a tree older than this is walked again before
// candidates are ranked.
constexpr Duration kTreeAgeMax = std::chrono::milliseconds(500);
// With one, the tree is walked at most this often, however many cgroups come and go.
constexpr Duration kTreeAgeMin = std::chrono::milliseconds(100);
// A walk over a large tree is followed by this many times its length without one: at most 5 % of a
// CPU while cgroups come and go all the time, and 0.02 % at rest, where it is to find what nobody
// told of.
constexpr int kWalkRest = 20;
constexpr int kWalkRestSettled = 5000;
constexpr Duration kTreeAgeSettled = std::chrono::minutes(5);
// A runtime makes a cgroup first and writes its limit then, of which no kernel tells: the tree is
// read again so long after a change, and once more after this many times that.
constexpr Duration kSettling = std::chrono::milliseconds(100);
constexpr int kSettlingGrowth = 10;
// Kubelet measures volumes this often (volumeStatsAggPeriod).
constexpr Duration kLimitsAgeMax = std::chrono::minutes(1);
// Between two rounds of node-level reclaim: kubelet's monitoring interval.
constexpr Duration kReclaimInterval = std::chrono::seconds(10);
// The longest that a hint of pressure may wait.
constexpr Duration kHintMax = std::chrono::milliseconds(100);

// Whether the wake says that usage crossed a line, or that the kernel is about to act: such a wake
// never waits.
bool is_urgent(const Wake& wake) {
  switch (wake.source) {
    case WakeSource::reclaim:
    case WakeSource::stall:
    case WakeSource::psi_trigger:
    case WakeSource::workload_change: return false;
    default: return true;
  }
}

// The wake to put on record: the one that saw a crossing first, else the first.
const Wake& foremost(const std::vector<Wake>& wakes) {
  const auto sees_usage = [](const Wake& wake) { return wake.usage.has_value(); };
  const auto found = std::find_if(wakes.begin(), wakes.end(), sees_usage);
  return found == wakes.end() ? wakes.front() : *found;
}

// Whether candidates may be ranked for memory, the one ranking that goes by the kernel's points.
bool is_short_of_memory(const Decision& decision) {
  return std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.asks_for_eviction() && evidence.driving &&
           resource_of(evidence.threshold.signal) == Resource::memory;
  });
}

// Lines that are not met yet, put far enough away not to fire at once. Those that are met go to the
// sources as they are: each knows how not to tell again what is told.
std::vector<Line> armable(std::vector<Line> lines) {
  for (Line& line : lines) {
    if (line.headroom.count <= 0) continue;
    line.headroom = std::max(line.headroom, kNearestLine);
    line.usage_line = std::max(line.usage_line, line.usage + kNearestLine);
  }
  return lines;
}

}  // namespace

Core::Core(Parts parts, Config config)
    : parts_(std::move(parts)),
      config_(std::move(config)),
      kills_(*parts_.ladder, parts_.sinks),
      oom_kills_(parts_.sinks, parts_.foresight),
      growth_(*parts_.clock, *parts_.observer),
      own_limits_(*parts_.log),
      readiness_(*parts_.observer, *parts_.ladder, growth_) {
  own_limits_.use(parts_.brakes);
}

std::int64_t Core::wall_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Core::start() {
  recheck_in_ = std::min(kSettling, config_.recheck_interval);
  refresh();
  look_after_pods();
  growth_.look_calmly(config_);
  look(Wake{WakeSource::startup, parts_.clock->now(), {}, {}});
}

void Core::source_ready(sources::Source& source) {
  std::vector<Wake> wakes;
  source.drain(parts_.clock->now(), wakes);
  for (const Wake& wake : wakes) note_wake(wake);
  if (!wakes.empty()) look_or_wait(wakes);
  // What the kernel did comes on record after what we do about it.
  tell_kernel_kills();
}

void Core::look_or_wait(const std::vector<Wake>& wakes) {
  MonotonicTime soonest = due(wakes.front());
  for (const Wake& wake : wakes) soonest = std::min(soonest, due(wake));
  if (soonest <= parts_.clock->now()) {
    look(foremost(wakes));
  } else if (!deferred_until_ || soonest < *deferred_until_) {
    deferred_ = foremost(wakes);
    deferred_until_ = soonest;
  }
}

MonotonicTime Core::due(const Wake& wake) const {
  if (is_urgent(wake)) return wake.at;
  if (wake.source == WakeSource::workload_change) return refreshed_at_ + tree_age_min();
  static const std::int64_t kRate =
      sources::possible_fill_rate(std::thread::hardware_concurrency());
  const double seconds = static_cast<double>(nearest_headroom_.count) / static_cast<double>(kRate);
  const auto quiet = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return looked_at_ + std::min(quiet, kHintMax);
}

void Core::note_wake(const Wake& wake) {
  if (wake.source == WakeSource::workload_change) tree_changed_ = true;
  oom_kills_.note(wake);
}

void Core::ladder_ready() {
  parts_.ladder->advance();
  kills_.collect();
  look(Wake{WakeSource::kill_progress, parts_.clock->now(), {}, {}});
}

void Core::time_passed() {
  const MonotonicTime now = parts_.clock->now();
  if (const auto due = parts_.ladder->next_look(); due && *due <= now) ladder_ready();
  for (sources::Source* source : parts_.sources) {
    if (const auto due = source->next_look(); due && *due <= now) source_ready(*source);
  }
  if (const auto due = kernel_kills_due(); due && *due <= now) tell_kernel_kills();
  if (parts_.foresight != nullptr) parts_.foresight->time_passed();
  if (deferred_until_ && *deferred_until_ <= now) look(Wake(*deferred_));
  if (pods_due_ <= now) look_after_pods();
  if (const auto due = readiness_.next_look(); due && *due <= now) make_ready(now);
  if (deadline_ && *deadline_ <= now) look(Wake{WakeSource::deadline, now, {}, {}});
  const auto guard_due = parts_.guard != nullptr ? parts_.guard->next_look() : std::nullopt;
  if (guard_due && *guard_due <= now) look(Wake{WakeSource::recheck, now, {}, {}});
  if (recheck_at_ <= now) {
    recheck();
    look(Wake{WakeSource::recheck, now, {}, {}});
    if (!hold_until_ && readiness_.subjects().empty()) growth_.look_calmly(config_);
  } else if (hold_until_ && *hold_until_ <= now) {
    look(Wake{WakeSource::recheck, now, {}, {}});
  }
}

// What changed and was not told of. Once the tree has settled and its changes are told, that takes
// no walk each time.
void Core::recheck() {
  const bool settled = recheck_in_ >= config_.recheck_interval;
  const MonotonicTime now = parts_.clock->now();
  if (now - refreshed_at_ < tree_age_min()) {
    recheck_at_ = refreshed_at_ + tree_age_min();
    return;
  }
  const Duration rest = std::min(walk_length_ * kWalkRestSettled, kTreeAgeSettled);
  if (parts_.told_of_cgroups && settled && !tree_changed_ && now - refreshed_at_ < rest) {
    recheck_at_ = now + config_.recheck_interval;
    return;
  }
  recheck_in_ = std::min(recheck_in_ * kSettlingGrowth, config_.recheck_interval);
  refresh();
}

// How old the tree must be for a change of it to be looked at.
Duration Core::tree_age_min() const {
  return std::max(kTreeAgeMin, walk_length_ * kWalkRest);
}

void Core::make_ready(MonotonicTime now) {
  if (readiness_.working()) {
    if (!parts_.told_of_cgroups && now - refreshed_at_ > kTreeAgeMax) refresh();
    readiness_.work(config_, parts_.ladder->progress(), now);
    if (readiness_.working()) return;
    post_orders();
    if (parts_.guard != nullptr) parts_.guard->ranked();
    return;
  }
  look(Wake{WakeSource::recheck, now, {}, {}});
}

void Core::reload(Config config) {
  const bool same_rules = policy::same_rules(config_, config);
  state_ = policy::reconfigured(config_, config, state_);
  config_ = std::move(config);
  ++reloads_;
  parts_.observer->configure(config_);
  readiness_.reconfigured(same_rules);
  if (parts_.watchdog != nullptr) parts_.watchdog->withdraw();
  if (parts_.guard != nullptr) parts_.guard->disarm();
  refresh();
  look(Wake{WakeSource::command, parts_.clock->now(), {}, {}});
}

MonotonicTime Core::next_look() const {
  MonotonicTime next = recheck_at_;
  if (hold_until_) next = std::min(next, *hold_until_);
  if (deferred_until_) next = std::min(next, *deferred_until_);
  if (deadline_) next = std::min(next, *deadline_);
  if (!config_.known_pods.empty()) next = std::min(next, pods_due_);
  if (const auto due = parts_.ladder->next_look()) next = std::min(next, *due);
  if (const auto due = readiness_.next_look()) next = std::min(next, *due);
  if (const auto due = kernel_kills_due()) next = std::min(next, *due);
  if (parts_.foresight != nullptr)
    next = std::min(next, parts_.foresight->next_look().value_or(next));
  if (parts_.guard != nullptr) next = std::min(next, parts_.guard->next_look().value_or(next));
  for (const sources::Source* source : parts_.sources) {
    if (const auto due = source->next_look()) next = std::min(next, *due);
  }
  return next;
}

void Core::look(const Wake& wake) {
  take_shot();
  look_at_all(wake);
  if (parts_.watchdog != nullptr) parts_.watchdog->looked();
}

void Core::look_at_all(const Wake& wake) {
  const MonotonicTime woken = parts_.clock->now();
  ++looks_;
  looked_at_ = woken;
  deferred_until_.reset();
  for (int kills = 0; kills < kMaxKillsPerLook && decide(wake, woken); ++kills) {
  }
  if (!tree_changed_) return;
  if (parts_.clock->now() - refreshed_at_ < tree_age_min()) {
    deferred_ = Wake{WakeSource::workload_change, woken, {}, {}};
    deferred_until_ = refreshed_at_ + tree_age_min();
    return;
  }
  recheck_in_ = std::min(kSettling, config_.recheck_interval);
  refresh();
  // Arms what was just found.
  for (int kills = 0; kills < kMaxKillsPerLook && decide(wake, woken); ++kills) {
  }
}

bool Core::decide(const Wake& wake, MonotonicTime woken) {
  Record record;
  if (!decide_prepared(wake, record)) {
    auto kills = parts_.ladder->progress();  // before the node: see decide_prepared()
    record.observation = parts_.observer->observe(wake, parts_.clock->now());
    record.observation.kills = std::move(kills);
    record.observation.reclaim = reclaim_state();
    record.decision = decide_on(record);
  }
  record.stages.crossed = wake.at;
  record.stages.woken = woken;
  record.stages.decided = parts_.clock->now();

  const bool kills = record.decision.action == Action::kill;
  const bool first = !kills || may_signal();
  if (kills && first) kills_.signal(record.decision);
  // Whatever follows happens while the victims are dying already.
  record.wall_time_ns = wall_time_ns();
  if (!first) {
    tell_pass(record);
    return false;
  }
  deadline_ = policy::next_deadline(config_, state_);
  if (!kills) {
    arm(record.observation, record.decision);
    hold(record.decision, record.stages.decided);
    take_charge(record.decision);
  }
  log_look(record.stages, record.observation.wake, record.decision.reason);
  if (record.decision.action == Action::reclaim) start_reclaim(record.decision);
  tell_pass(record);
  // What was only glanced at is no look to tell of: after a kill another one follows at once.
  if (!record.prepared) tell_look(record);
  const bool near_own_limit = !record.prepared && own_limits_.look(config_, record.decision);
  // Nor one to make the guard's list from: it would count on memory that is about to come back.
  if (parts_.guard != nullptr && !record.prepared && !kills) {
    parts_.guard->looked(config_, record, readiness_, growth_);
  }
  if (kills) {
    oom_kills_.keep(record, state_);
    tell_kills(std::move(record));
  } else {
    if (near_own_limit || !is_repetition(record.decision)) {
      record.sequence = ++sequence_;
      report(record);
    }
    survey(record.stages.decided);
    oom_kills_.keep(std::move(record), state_);
  }
  return kills;
}

void Core::tell_look(const Record& record) {
  const exports::Look look{record.observation, record.decision, recheck_at_};
  for (exports::RecordSink* sink : parts_.sinks) sink->looked(look);
  // A victim's memory is on its way: whom the kernel would choose then is another question.
  const bool kills = record.decision.action == Action::kill;
  if (parts_.foresight == nullptr || kills) return;
  parts_.foresight->looked(record.observation, record.decision);
}

// The answer to the observation, with whatever the policy asks to be read besides.
Decision Core::decide_on(Record& record) {
  Observation& observation = record.observation;
  // What the pods occupy on disk is measured on its own schedule; this is the time to look at it.
  const bool measured = observation.wake.source == WakeSource::disk_usage;
  auto answer = policy::step(config_, state_, observation);
  note_disk_shortage(answer.decision, observation.at);
  if (measured || answer.decision.action == Action::inspect) {
    const auto subject = policy::inspection_subject(answer.decision);
    read_workloads(observation, answer.decision, measured ? std::string_view() : subject);
    if (measured || disk_short_since_) {
      parts_.observer->add_statistics(observation, disk_short_since_);
    }
    answer = policy::step(config_, state_, observation);
  }
  if (answer.decision.reason == Reason::disk_usage_unread) {
    parts_.observer->ask_disk_usage(parts_.clock->now(), Duration::zero());
  } else if (name_containers(answer.decision, observation)) {
    answer = policy::step(config_, state_, observation);
  }
  record.stages.observed = parts_.clock->now();
  before_ = std::exchange(state_, std::move(answer.state));
  reclaim_over_ = false;
  return std::move(answer.decision);
}

void Core::read_workloads(Observation& observation, const Decision& asked,
                          std::string_view subject) {
  const Duration age = parts_.clock->now() - refreshed_at_;
  if (tree_changed_ || (!parts_.told_of_cgroups && age > kTreeAgeMax)) refresh();
  // One scan of the processes for all decisions of a look, however many it takes.
  const sources::Scoring scoring{is_short_of_memory(asked), looked_at_};
  parts_.observer->add_workloads(observation, subject, scoring);
  growth_.apply(*observation.workloads);
}

// Whom a filesystem is short because of shows only in what was measured since: a walk from before
// would point at yesterday's largest.
void Core::note_disk_shortage(const Decision& decision, MonotonicTime at) {
  const bool is_short = std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.met && filesystem_of(evidence.threshold.signal);
  });
  if (!is_short) {
    disk_short_since_.reset();
  } else if (!disk_short_since_) {
    disk_short_since_ = at;
  }
}

// A victim with a grace leaves time to read which of its containers used how much, for the message.
// False when there is none.
bool Core::name_containers(const Decision& decision, Observation& observation) {
  if (decision.evictions.size() != 1 || decision.evictions.front().at_once) return false;
  const CgroupId victim = decision.considered[*decision.victim()].sample.workload.cgroup;
  const auto sample =
      std::ranges::find(*observation.workloads, victim,
                        [](const WorkloadSample& each) { return each.workload.cgroup; });
  if (sample == observation.workloads->end()) return false;
  // Without statistics it ranks first for a disk; with its containers named it would not any more.
  const bool on_disk =
      !decision.driving || filesystem_of(decision.evidence[*decision.driving].threshold.signal);
  if (on_disk && !sample->statistics) return false;
  parts_.observer->add_container_samples(*sample);
  return true;
}

// One record for each victim.
void Core::tell_kills(Record record) {
  last_reported_ = record.decision;
  const std::vector<Eviction> evictions = std::move(record.decision.evictions);
  for (const Eviction& eviction : evictions) {
    record.decision.evictions = {eviction};
    record.sequence = ++sequence_;
    kills_.keep(record);
  }
  kills_.collect();  // a dry run, or a victim that is gone already, is complete at once
}

// The kernel's kills, each once, when it is known as well as it will be.
void Core::tell_kernel_kills() {
  if (parts_.oom_tellers == nullptr) return;
  const MonotonicTime now = parts_.clock->now();
  for (const OomKillSighting& kill : parts_.oom_tellers->take(now)) {
    ++kernel_kills_;
    oom_kills_.tell(kill, config_, ++sequence_, now, wall_time_ns());
  }
}

std::optional<MonotonicTime> Core::kernel_kills_due() const {
  return parts_.oom_tellers == nullptr ? std::nullopt : parts_.oom_tellers->next_look();
}

void Core::foresight_ready() {
  for (const Foresight::Answer& answer : parts_.foresight->collect()) {
    if (!parts_.log->writes(exports::LogLevel::debug)) continue;
    exports::LogLine line("foresight");
    line.field("domain", answer.path).field("verdict", to_string(answer.verdict));
    if (answer.victim) line.field("pid", answer.victim->pid);
    line.field("took_us", answer.took);
    parts_.log->write(exports::LogLevel::debug, line);
  }
}

void Core::start_reclaim(const Decision& decision) {
  const bool begun = parts_.reclaim != nullptr && parts_.reclaim->start(decision.node_reclaim);
  parts_.log->write(exports::LogLevel::warning,
                    exports::LogLine("node-reclaim").field("begun", begun));
}

void Core::reclaim_ready() {
  const auto result = parts_.reclaim->take();
  if (!result) return;
  reclaim_over_ = true;
  reclaimed_at_ = parts_.clock->now();
  exports::LogLine line("node-reclaim");
  line.field("took_us", result->took);
  if (result->dead) {
    line.field("containers", result->dead->containers)
        .field("sandboxes", result->dead->sandboxes)
        .field("containers_failed", result->dead->failures.count);
  }
  if (result->images) {
    line.field("images", result->images->images)
        .field("freed", result->images->freed)
        .field("images_failed", result->images->failures.count);
  }
  for (const Error& failure : result->failures) line.field("failure", failure.text());
  parts_.log->write(exports::LogLevel::info, line);
  look(Wake{WakeSource::node_reclaim, parts_.clock->now(), {}, {}});
}

ReclaimState Core::reclaim_state() const {
  // In a dry run nothing is removed either.
  if (parts_.reclaim == nullptr || config_.dry_run) return ReclaimState::unavailable;
  if (reclaim_over_) return ReclaimState::done;
  // Kubelet's own pass is no more frequent.
  const bool of_late = reclaimed_at_ && parts_.clock->now() - *reclaimed_at_ < kReclaimInterval;
  if (!state_.reclaim && of_late) return ReclaimState::unavailable;
  return parts_.reclaim->running() ? ReclaimState::running : ReclaimState::ready;
}

void Core::log_look(const StageTimes& stages, const Wake& wake, Reason reason) {
  if (!parts_.log->writes(exports::LogLevel::debug)) return;
  parts_.log->write(exports::LogLevel::debug,
                    exports::LogLine("look")
                        .field("wake", to_string(wake.source))
                        .field("reason", to_string(reason))
                        .field("wake_us", stages.woken - stages.crossed)
                        .field("observe_us", stages.observed - stages.woken)
                        .field("decide_us", stages.decided - stages.observed)
                        .field("act_and_arm_us", parts_.clock->now() - stages.decided));
}

void Core::arm(const Observation& observation, const Decision& decision) {
  const auto lines = armable(policy::lines(config_, observation));
  const MonotonicTime now = parts_.clock->now();
  nearest_headroom_ = gib(1024);
  for (const Line& line : lines) {
    if (line.headroom.count > 0) nearest_headroom_ = std::min(nearest_headroom_, line.headroom);
  }
  std::vector<std::string> notes;
  for (const SourceNote& note : observation.notes) {
    notes.push_back(note.subject + ": " + note.problem);
  }
  bool watched = false;  // every line, by the kernel
  // But for what no counter of the programs shows.
  std::vector<Line> unseen;
  std::ranges::copy_if(lines, std::back_inserter(unseen), [](const Line& line) {
    return row_of(line.signal).watch == SignalWatch::meminfo;
  });
  for (sources::Source* source : parts_.sources) {
    const bool polls = source->feature() == Feature::poll;
    auto armed = source->arm(polls && watched ? unseen : lines, now);
    if (source->feature() == Feature::bpf)
      watched = parts_.told_of_usage && armed && armed->empty();
    if (!armed) {
      notes.push_back(std::string(to_string(source->feature())) + ": " + armed.error().text());
      continue;
    }
    for (std::string& note : *armed) notes.push_back(std::move(note));
  }
  if (parts_.capacity != nullptr) parts_.capacity->watch(policy::capacity_lines(decision), now);
  // The kernel's points change with every page: that ranking is made at the crossing only.
  if (config_.ranking != Ranking::kernel) readiness_.note(lines, now);
  if (parts_.watchdog != nullptr && readiness_.subjects().empty()) parts_.watchdog->withdraw();
  note_problems(std::move(notes), last_notes_);
}

// A problem that lasts is told once.
void Core::note_problems(std::vector<std::string> notes, std::vector<std::string>& last) {
  for (const std::string& note : notes) {
    if (std::find(last.begin(), last.end(), note) != last.end()) continue;
    parts_.log->write(exports::LogLevel::warning, exports::LogLine("note").field("problem", note));
  }
  last = std::move(notes);
}

void Core::refresh() {
  const MonotonicTime began = parts_.clock->now();
  const std::uint64_t changes = parts_.observer->workload_changes();
  std::vector<std::string> notes;
  for (const SourceNote& note : parts_.observer->refresh()) {
    notes.push_back(note.subject + ": " + note.problem);
  }
  note_problems(std::move(notes), last_refresh_notes_);
  refreshed_at_ = parts_.clock->now();
  walk_length_ = refreshed_at_ - began;
  recheck_at_ = refreshed_at_ + std::min(recheck_in_, config_.recheck_interval);
  tree_changed_ = false;
  // Whom the thread is to shoot was chosen among others.
  const bool others = changes != parts_.observer->workload_changes();
  if (others && parts_.watchdog != nullptr) parts_.watchdog->withdraw();
}

// What is true of known pods without any pressure: limits on local storage, for which their disks
// are measured, and the oom_score_adj of their processes.
void Core::look_after_pods() {
  const MonotonicTime now = parts_.clock->now();
  pods_due_ = now + config_.recheck_interval;
  if (config_.known_pods.empty()) return;
  if (config_.local_storage_isolation) parts_.observer->ask_disk_usage(now, kLimitsAgeMax);
  Observation observation = parts_.observer->observe(Wake{WakeSource::recheck, now, {}, {}}, now);
  parts_.observer->add_workloads(observation, {}, sources::kUnscored);
  if (!observation.workloads || !observation.node.capacity) return;
  const OomScoreAdj mode = config_.dry_run ? OomScoreAdj::observe : config_.oom_score_adj;
  parts_.patrol->look(*observation.workloads, *observation.node.capacity, mode);
}

void Core::hold(const Decision& decision, MonotonicTime now) {
  const bool met =
      std::any_of(decision.evidence.begin(), decision.evidence.end(),
                  [](const Evidence& evidence) { return evidence.asks_for_eviction(); });
  if (!met) {
    hold_until_.reset();
    hold_length_ = Duration::zero();
    return;
  }
  if (hold_until_ && *hold_until_ > now) return;
  hold_length_ = std::clamp(hold_length_ * 2, kShortestHold, kLongestHold);
  hold_until_ = now + hold_length_;
}

bool Core::is_repetition(const Decision& decision) const {
  const auto changed = [](const ConditionStatus& status) { return status.changed; };
  if (std::ranges::any_of(decision.conditions, changed)) return false;
  if (decision.reason == Reason::no_threshold_met && !last_reported_) return true;
  if (!last_reported_) return false;
  const auto subject = [](const Decision& of) {
    return of.driving ? of.evidence[*of.driving].subject : std::string();
  };
  return last_reported_->action == decision.action && last_reported_->reason == decision.reason &&
         subject(*last_reported_) == subject(decision);
}

void Core::report(const Record& record) {
  last_reported_ = record.decision;
  for (exports::RecordSink* sink : parts_.sinks) sink->write(record);
}

}  // namespace forestall::agent
