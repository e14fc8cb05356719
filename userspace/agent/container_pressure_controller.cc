// SPDX-License-Identifier: Apache-2.0
#include "agent/container_pressure_controller.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "actuators/reclaim_write.h"
#include "base/parse.h"
#include "exports/amount_text.h"
#include "exports/log_line.h"
#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"
#include "sources/watched_cgroups.h"

namespace forestall::agent {
namespace {

// Of usage, in one write.
constexpr std::int64_t kReclaimShare = 16;
constexpr const char* kObserved = "observed only";

// A watched cgroup has three descriptors; kills and workloads need most of them.
std::size_t watched_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const auto files = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  return std::min(files / 12, ContainerPressureController::kWatchedMax);
}

void choose_fairly(std::vector<PressureTarget>& targets, std::size_t most) {
  if (targets.size() <= most) return;
  std::vector<sources::MatchedCgroup> matched;
  for (const PressureTarget& each : targets) {
    matched.push_back({each.path, each.share, each.cgroup.inode});
  }
  const auto chosen = sources::fair_choice(std::move(matched), most);
  std::erase_if(targets, [&](const PressureTarget& each) {
    return !std::ranges::binary_search(chosen, each.path);
  });
}

Result<kernel::CgroupDir> open_target(const kernel::CgroupTree& tree,
                                      const PressureTarget& target) {
  auto cgroup = TRY(tree.open(target.path));
  if (cgroup.id() != target.cgroup) return Error{ENODEV, target.path + " was removed"};
  return cgroup;
}

Result<Bytes> working_set_of(const kernel::CgroupTree& tree, const std::string& path) {
  const auto cgroup = TRY(tree.open(path));
  return read_working_set(cgroup);
}

Result<actuators::ReclaimWrite> reclaim_from(const kernel::CgroupTree& tree,
                                             const PressureTarget& target) {
  const auto cgroup = TRY(open_target(tree, target));
  const Bytes usage = TRY(kernel::read_usage(cgroup));
  const Bytes amount = std::min(Bytes{usage.count / kReclaimShare}, actuators::kReclaimWriteMax);
  if (amount <= Bytes{0}) return actuators::ReclaimWrite{{}, true};
  return actuators::write_reclaim(cgroup, amount);
}

// REQUIRES: last.worst.
policy::PressureOrder order_of(const PressureTarget& target,
                               const policy::ContainerPressureStep& last) {
  return {target.qos, target.priority, last.worst->ratio(), target.path};
}

std::size_t place_of(PressureStage stage) {
  return static_cast<std::size_t>(stage) - 1;
}

}  // namespace

Result<std::unique_ptr<ContainerPressureController>> ContainerPressureController::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log,
    const std::vector<int>& others, const std::string& proc) {
  auto reader = TRY(sources::ContainerPressureReader::create(tree, others));
  auto headroom = TRY(LiftHeadroom::open(tree, proc));
  return std::unique_ptr<ContainerPressureController>(
      new ContainerPressureController(tree, records, log, std::move(headroom), std::move(reader)));
}

void ContainerPressureController::apply(const ContainerPressureConfig& config,
                                        PressureTargets targets, MonotonicTime now) {
  const bool is_new = config != config_;
  config_ = config;
  reserve_ = targets.reserve;
  counts_.exempt = targets.exempt;
  counts_.unknown_pods = targets.unknown_pods.size();
  const std::size_t wanted = targets.watched.size();
  const auto stay = static_cast<std::size_t>(std::ranges::count_if(watched_, [&](const auto& each) {
    return targets.unknown_pods.contains(each.second.target.share);
  }));
  choose_fairly(targets.watched, watched_max() - std::min(stay, watched_max()));
  std::map<std::string, std::string> unwatched = std::move(targets.refused);
  const std::size_t refused = unwatched.size();
  std::set<CgroupId> kept;
  for (const PressureTarget& each : targets.watched) kept.insert(each.cgroup);
  for (auto each = watched_.begin(); each != watched_.end();) {
    Watched& watched = each->second;
    const bool stays =
        kept.contains(each->first) || targets.unknown_pods.contains(watched.target.share);
    if (!stays || !config_.lifts()) take_back(watched);
    // A trigger has the threshold of its configuration.
    if (stays && (!is_new || watch_anew(watched, now))) {
      ++each;
      continue;
    }
    take_back(watched);
    reader_->forget(each->first);
    if (lifter_.original(each->first)) leaving_.insert_or_assign(each->first, std::move(watched));
    each = watched_.erase(each);
  }
  if (!leaving_.empty()) next_leaving_ = now + kReadEvery;
  for (const PressureTarget& each : targets.watched) {
    const auto done = watch(each, now);
    // It may have been removed since it was found.
    const auto present = tree_.id_at(each.path);
    if (!done && present && *present == each.cgroup) {
      unwatched.emplace(each.path, done.error().text());
    }
  }
  const auto watched =
      std::ranges::count_if(kept, [&](CgroupId each) { return watched_.contains(each); });
  counts_.not_watched = refused + wanted - static_cast<std::size_t>(watched);
  log_unwatched(std::move(unwatched));
}

void ContainerPressureController::log_unwatched(std::map<std::string, std::string> unwatched) {
  for (const auto& [path, why] : unwatched) {
    const auto before = unwatched_.find(path);
    if (before != unwatched_.end() && before->second == why) continue;
    exports::LogLine line("container-pressure-not-watched");
    log_.write(exports::LogLevel::warning, line.field("cgroup", path).field("problem", why));
  }
  unwatched_ = std::move(unwatched);
}

Result<void> ContainerPressureController::watch(PressureTarget target, MonotonicTime now) {
  const CgroupId cgroup = target.cgroup;
  if (const auto found = watched_.find(cgroup); found != watched_.end()) {
    Watched& watched = found->second;
    watched.target = std::move(target);
    // Its files were gone, as if it was removed: its memory controller was off.
    const bool is_lost = !watched.next_reading && !watched.armed;
    auto done = is_lost ? watch_anew(watched, now) : Result<void>();
    if (!done) watched_.erase(found);
    return done;
  }
  Watched& watched = watched_.emplace(cgroup, Watched{std::move(target)}).first->second;
  auto done = watch_anew(watched, now);
  if (!done) watched_.erase(cgroup);
  return done;
}

Result<void> ContainerPressureController::watch_anew(Watched& watched, MonotonicTime now) {
  const PressureTarget& target = watched.target;
  const auto& psi = config_.rule.thresholds[static_cast<std::size_t>(PressureSignal::psi)];
  reader_->forget(target.cgroup);
  TRY(reader_->watch(target.cgroup, target.path, psi));
  watched.state = {};
  watched.armed.reset();
  watched.last = {};
  watched.request.reset();
  end_pause(watched);
  watched.next_reading = now;
  return {};
}

bool ContainerPressureController::advance(MonotonicTime now) {
  node_short_.reset();
  const auto due = next_due();
  if (!woken_.empty() || (due && *due <= now)) {
    if (const auto free = headroom_.of_node(reserve_)) node_short_ = *free <= Bytes{0};
  }
  for (const CgroupId each : std::exchange(woken_, {})) {
    if (const auto found = watched_.find(each); found != watched_.end()) begin(found->second, now);
  }
  Wanted wanted;
  const bool changed = take_readings(now, wanted);
  if (config_.enforces) {
    for (Watched* each : wanted[place_of(PressureStage::lift)]) lift(*each);
    queue_reclaims(wanted[place_of(PressureStage::reclaim)]);
  }
  request_evictions(wanted, now);
  go_on_leaving(now);
  const bool reclaimed = reclaim_next(now);
  for (auto& [cgroup, each] : watched_) {
    if (std::exchange(each.has_news, false)) log_stage(each);
  }
  return reclaimed || changed;
}

bool ContainerPressureController::take_readings(MonotonicTime now, Wanted& wanted) {
  bool changed = false;
  for (auto& [cgroup, each] : watched_) {
    if (!each.next_reading || now < *each.next_reading) continue;
    each.next_reading = now + kReadEvery;
    changed = take_reading(each, now) || changed;
    const PressureStage action = each.last.action;
    if (action != PressureStage::none) wanted[place_of(action)].push_back(&each);
  }
  for (auto& stage : wanted) {
    std::ranges::sort(stage, std::less(),
                      [](const Watched* each) { return order_of(each->target, each->last); });
  }
  return changed;
}

// Until the event nothing had happened since it was armed, except stalls below the trigger's
// threshold.
void ContainerPressureController::begin(Watched& watched, MonotonicTime now) {
  if (watched.next_reading) return;  // it is read already
  watched.next_reading = now;
  const auto fresh = reader_->read(watched.target.cgroup, now);
  auto baseline = std::exchange(watched.armed, std::nullopt);
  if (!baseline || !fresh) return;
  baseline->at = now - Duration{1};
  baseline->some_stall = fresh->some_stall;
  watched.state = {};
  watched.state.readings.push_back(*baseline);
}

void ContainerPressureController::wait_for_event(Watched& watched, MonotonicTime now) {
  const CgroupId cgroup = watched.target.cgroup;
  // Events that are not seen must be read.
  if (!reader_->without_trigger(cgroup).empty()) return;
  const auto reading = reader_->read(cgroup, now);
  if (!reading || !reader_->arm(cgroup)) return;
  watched.armed = *reading;
  watched.state = {};
  watched.next_reading.reset();
}

policy::PressureScene ContainerPressureController::scene_of(Watched& watched) {
  policy::PressureScene scene{node_short_, watched.impossible,
                              lifter_.original(watched.target.cgroup)};
  if (watched.is_lifted && !scene.lifted_from) {
    watched.is_lifted = false;
    watched.is_taken = true;
    watched.result = "another process has written memory.high since";
  }
  if (watched.is_taken) scene.impossible.insert(PressureStage::lift);
  if (scene.lifted_from) scene.working_set = working_set_of(tree_, watched.target.path).optional();
  return scene;
}

// Whether it is, or was, under pressure.
bool ContainerPressureController::take_reading(Watched& watched, MonotonicTime now) {
  const auto reading = reader_->read(watched.target.cgroup, now);
  watched.is_unread = !reading;
  watched.request.reset();
  if (!reading && kernel::is_removed(reading.error())) {
    watched.next_reading.reset();  // the next targets do not have it
    watched.last = {};
    return true;
  }
  const PressureStage before = watched.state.stage;
  const bool was_pressed = watched.last.worst.has_value();
  const auto scene = scene_of(watched);
  watched.last =
      policy::step_container_pressure(config_.rule, watched.state, reading.optional(), scene);
  watched.state = watched.last.next;
  if (watched.last.restore || !config_.lifts()) take_back(watched);
  note_stage(watched, before);
  const bool is_pressed = watched.last.worst.has_value();
  if (!is_pressed && reading) {
    watched.result.clear();
    watched.is_taken = false;
    end_pause(watched);
    if (policy::is_idle(config_.rule, watched.state, scene)) wait_for_event(watched, now);
  }
  return was_pressed || is_pressed || watched.last.restore;
}

void ContainerPressureController::note_stage(Watched& watched, PressureStage before) {
  const PressureStage stage = watched.state.stage;
  if (stage <= before) return;
  end_pause(watched);
  watched.result = config_.enforces ? "" : kObserved;
  ++counts_.begun[place_of(stage)];
  watched.has_news = true;
}

// Those of containers that were read at other times stay until their next readings.
void ContainerPressureController::request_evictions(const Wanted& wanted, MonotonicTime now) {
  has_new_evictions_ = false;
  for (const PressureStage stage : {PressureStage::kill, PressureStage::evict}) {
    if (!config_.enforces) continue;
    for (Watched* each : wanted[place_of(stage)]) request_eviction(*each, now);
  }
  std::vector<const Watched*> all;
  for (const auto& [cgroup, each] : watched_) {
    if (each.request) all.push_back(&each);
  }
  std::ranges::sort(all, [](const Watched* a, const Watched* b) {
    if (a->request->stage != b->request->stage) return a->request->stage > b->request->stage;
    return order_of(a->target, a->last) < order_of(b->target, b->last);
  });
  evictions_.clear();
  for (const Watched* each : all) evictions_.push_back(*each->request);
}

void ContainerPressureController::request_eviction(Watched& watched, MonotonicTime now) {
  if (watched.next_request && now < *watched.next_request) return;
  const policy::PressureExcess& worst = *watched.last.worst;
  const PressureStage stage = watched.state.stage;
  if (watched.request_pause == Duration{0}) {
    watched.result =
        stage == PressureStage::kill ? "a kill is requested" : "an eviction is requested";
  }
  watched.request = {
      watched.target.subject, watched.target.workload, stage, worst.signal, worst.value,
      worst.threshold,        watched.state.over_for,  now};
  has_new_evictions_ = true;
}

void ContainerPressureController::end_pause(Watched& watched) {
  watched.request_pause = {};
  watched.next_request.reset();
}

void ContainerPressureController::note_evaluation(
    const std::vector<KillProgress>& kills, const std::vector<policy::PressureRefusal>& refusals,
    MonotonicTime now) {
  for (auto& [cgroup, watched] : watched_) {
    const KillProgress* last = nullptr;
    for (const KillProgress& kill : kills) {
      const bool is_newer = last == nullptr || kill.started >= last->started;
      if (is_newer && path_is_within(watched.target.path, kill.path)) last = &kill;
    }
    if (last != nullptr) note_kill(watched, *last);
    const auto refused =
        std::ranges::find(refusals, watched.target.subject, &policy::PressureRefusal::subject);
    if (refused == refusals.end() || watched.state.stage < PressureStage::evict) continue;
    watched.has_news = watched.has_news || watched.request_pause == Duration{0};
    watched.request_pause = std::clamp(2 * watched.request_pause, 2 * kReadEvery, kRequestPauseMax);
    watched.next_request = now + watched.request_pause;
    watched.request.reset();
    watched.result = refused->result;
  }
}

// After a kill, and once more when its processes are gone. A grace ends nothing yet.
void ContainerPressureController::note_kill(Watched& watched, const KillProgress& kill) {
  const auto noted = std::pair(kill.started, kill.state);
  if (kill.state == KillState::failed || watched.last_kill == noted) return;
  watched.last_kill = noted;
  end_pause(watched);
  if (kill.state == KillState::terminating) return;
  watched.state = {};
  watched.last = {};
  watched.request.reset();
  watched.result.clear();
}

// A lift that fails is tried again at each reading of the stage, and logged once.
void ContainerPressureController::lift(Watched& watched) {
  if (lifter_.original(watched.target.cgroup)) return;
  const auto lifted = lift_fully(watched.target);
  const std::string before = watched.result;
  if (lifted) {
    ++counts_.lifts;
    watched.is_lifted = true;
    watched.result = "memory.high lifted to " + exports::amount_text(lifted->count);
  } else {
    watched.result = "memory.high not lifted: " + lifted.error().text();
  }
  if (before.empty() || lifted) watched.has_news = true;
}

Result<Bytes> ContainerPressureController::lift_fully(const PressureTarget& target) {
  std::vector<LiftGrant> grants;
  lifter_.for_each([&](CgroupId, const std::string& path, Bytes high) {
    const auto used = working_set_of(tree_, path);
    // With an unknown usage the whole lift counts.
    grants.push_back({path, std::max(high - (used ? *used : Bytes{}), Bytes{})});
  });
  auto room = TRY(headroom_.of_cgroup(target.path, target.cgroup, reserve_, grants));
  room.working_set = TRY(working_set_of(tree_, target.path));
  if (!room.max) return error("it has no memory.max");
  const auto full = policy::full_lift(room);
  if (!full) {
    return error("the node or a cgroup above it has too little headroom for it: " +
                 exports::amount_text(room.headroom.count));
  }
  return lifter_.lift(target.path, target.cgroup, *full);
}

// Does nothing if it is not lifted. What fails is tried again at the next reading.
void ContainerPressureController::take_back(Watched& watched) {
  if (!lifter_.original(watched.target.cgroup)) return;
  const auto done = lifter_.restore(watched.target.cgroup);
  if (!done && done.error().code == EAGAIN) return;  // the next reading goes on
  std::string problem = done ? std::string() : done.error().text();
  if (done) {
    ++counts_.restores;
    watched.is_lifted = false;
  }
  const bool is_known = !done && problem == watched.restore_problem;
  watched.restore_problem = problem;
  if (!is_known) log_restored(watched.target.path, watched.target.subject, problem);
}

void ContainerPressureController::log_restored(const std::string& path, const std::string& subject,
                                               const std::string& problem) {
  exports::LogLine line("container-pressure-restored");
  line.field("cgroup", path).field("subject", subject);
  if (!problem.empty()) line.field("problem", problem);
  log_.write(problem.empty() ? exports::LogLevel::info : exports::LogLevel::warning, line);
}

// What is left keeps its record, and the next start goes on.
ContainerPressureController::~ContainerPressureController() {
  lifter_.restore_all([this](CgroupId cgroup, const std::string& path, const Result<void>& done) {
    const auto found = watched_.find(cgroup);
    log_restored(path, found == watched_.end() ? path : found->second.target.subject,
                 done ? std::string() : done.error().text());
  });
}

// Those that wait since an earlier round come first.
void ContainerPressureController::queue_reclaims(const std::vector<Watched*>& wanted) {
  for (Watched* each : wanted) {
    if (std::exchange(each->is_queued, true)) continue;
    reclaims_.push_back(each->target.cgroup);
  }
}

// One step of each value that is being lowered.
void ContainerPressureController::go_on_leaving(MonotonicTime now) {
  if (!next_leaving_ || now < *next_leaving_) return;
  for (auto& [cgroup, each] : leaving_) take_back(each);
  std::erase_if(leaving_, [&](const auto& entry) { return !lifter_.original(entry.first); });
  next_leaving_.reset();
  if (!leaving_.empty()) next_leaving_ = now + kReadEvery;
}

// After a write there is a pause of the same length: else they could follow each other without end.
bool ContainerPressureController::reclaim_next(MonotonicTime now) {
  if (now < next_reclaim_) return false;
  while (!reclaims_.empty()) {
    const auto found = watched_.find(reclaims_.front());
    reclaims_.pop_front();
    if (found == watched_.end()) continue;
    found->second.is_queued = false;
    // It may be calm by now, or its last reading is missing.
    if (found->second.last.action != PressureStage::reclaim || !config_.enforces) continue;
    const MonotonicTime begun = SystemClock().now();
    reclaim(found->second);
    next_reclaim_ = now + 2 * (SystemClock().now() - begun);
    return true;
  }
  return false;
}

void ContainerPressureController::reclaim(Watched& watched) {
  const auto written = reclaim_from(tree_, watched.target);
  if (written) {
    counts_.reclaimed += written->reclaimed;
    watched.result = exports::amount_text(written->reclaimed.count) + " reclaimed";
    return;
  }
  const int code = written.error().code;
  // Each later stage is still reached.
  if (code == ENOENT || code == EOPNOTSUPP) watched.impossible.insert(PressureStage::reclaim);
  watched.result = "nothing reclaimed: " + written.error().text();
}

void ContainerPressureController::log_stage(const Watched& watched) const {
  exports::LogLine line("container-pressure");
  line.field("cgroup", watched.target.path)
      .field("subject", watched.target.subject)
      .field("stage", to_string(watched.state.stage))
      .field("cause", to_string(watched.last.cause))
      .field("pressed_us", watched.state.over_for);
  if (const auto& worst = watched.last.worst) {
    line.field("signal", to_string(worst->signal))
        .field("value", fmt::format("{:.1f}", worst->value))
        .field("threshold", fmt::format("{}", worst->threshold));
  }
  if (!watched.result.empty()) line.field("result", watched.result);
  const bool is_first = watched.state.stage == PressureStage::reclaim;
  log_.write(is_first ? exports::LogLevel::info : exports::LogLevel::warning, line);
}

void ContainerPressureController::wait(std::optional<MonotonicTime> due) {
  std::ranges::copy(reader_->wait(due), std::back_inserter(woken_));
}

std::optional<MonotonicTime> ContainerPressureController::next_due() const {
  std::optional<MonotonicTime> due = next_leaving_;
  if (!reclaims_.empty()) due = std::min(due.value_or(next_reclaim_), next_reclaim_);
  for (const auto& [cgroup, each] : watched_) {
    if (each.next_reading) due = std::min(due.value_or(*each.next_reading), *each.next_reading);
  }
  return due;
}

ContainerPressureReport ContainerPressureController::report() {
  ContainerPressureReport report = counts_;
  report.enforces = config_.enforces;
  report.watched = watched_.size();
  for (const auto& [cgroup, each] : watched_) {
    if (each.is_unread) ++report.unread;
    const auto lifted_from = lifter_.original(cgroup);
    if (!each.last.worst && !lifted_from) continue;
    const PressureCause cause = each.last.worst ? each.last.cause : PressureCause::none;
    report.pressed.push_back({each.target.subject, each.target.path, each.state.stage, cause,
                              each.last.values, each.state.over_for, lifted_from, each.result});
  }
  return report;
}

}  // namespace forestall::agent
