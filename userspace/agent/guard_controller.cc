// SPDX-License-Identifier: Apache-2.0
#include "agent/guard_controller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/guard_words.h"
#include "policy/eviction_notice.h"

namespace forestall::agent {
namespace {

static_assert(policy::kGuardSubjectsMax == ABI_GUARD_STANDING, "each order has a slot");
static_assert(GuardListThread::kLateAfter == RegularListJob::kExpiry, "a late job has no list");

Bytes bytes(std::uint64_t count) {
  return Bytes{static_cast<std::int64_t>(count)};
}

// Of the whole workload, right before its first process was signalled. Where the BPF program could
// not read it: what was expected when it was listed.
Bytes usage_at_kill(const abi_guard_report& report) {
  return bytes(report.workload_usage != 0 ? report.workload_usage : report.victim.expected);
}

// A copy without what grows with the number of workloads.
Record without_workloads(Record& record) {
  auto workloads = std::exchange(record.observation.workloads, std::nullopt);
  auto considered = std::exchange(record.decision.considered, {});
  Record copy = record;
  record.observation.workloads = std::move(workloads);
  record.decision.considered = std::move(considered);
  return copy;
}

bool same_kills(const std::vector<KillProgress>& a, const std::vector<KillProgress>& b) {
  return std::ranges::equal(a, b, [](const KillProgress& one, const KillProgress& other) {
    return one.cgroup == other.cgroup && one.state == other.state;
  });
}

// Not their states, which change faster than lists are made.
bool same_victims(const std::vector<KillProgress>& a, const std::vector<KillProgress>& b) {
  return std::ranges::equal(a, b, {}, &KillProgress::cgroup, &KillProgress::cgroup);
}

}  // namespace

Result<std::unique_ptr<GuardController>> GuardController::create(const GuardParts& parts) {
  auto thread = TRY(GuardListThread::create(parts.clock, parts.counts));
  return std::unique_ptr<GuardController>(new GuardController(parts, std::move(thread)));
}

GuardController::GuardController(const GuardParts& parts, std::unique_ptr<GuardListThread> thread)
    : parts_(parts),
      thread_(std::move(thread)),
      never_kill_(
          std::make_shared<const actuators::NeverKill>(actuators::NeverKill::of_this_process())),
      regular_(parts, *thread_),
      standing_(parts, *thread_),
      follows_(parts.guard.waits()) {}

// Another one is in force after disarm() only.
const std::shared_ptr<const Config>& GuardController::shared(const Config& config) {
  if (!config_) config_ = std::make_shared<const Config>(config);
  return config_;
}

void GuardController::decided(Record& record) {
  if (!follows_) return;
  const MonotonicTime now = parts_.clock.now();
  note_former_end(now);
  if (former_ended_ && now - *former_ended_ > kFormerReports) {
    follows_ = false;
    evaluated_.reset();
  } else {
    evaluated_ = without_workloads(record);
  }
}

void GuardController::note_former_end(MonotonicTime now) {
  if (former_ended_ || parts_.guard.waits()) return;
  const auto ended = parts_.guard.former_ended();
  if (ended.ok() && !*ended) return;
  former_ended_ = now;
  exports::LogLine line("guard");
  line.field("what", "ended-former");
  if (!ended.ok()) line.field("problem", ended.error().text());
  parts_.log.write(ended.ok() ? exports::LogLevel::info : exports::LogLevel::warning, line);
}

void GuardController::evaluated(const Config& config, Record& record,
                                const VictimCache& victim_cache, const GrowthWatch& growth) {
  const MonotonicTime now = parts_.clock.now();
  const bool on = config.guard && !config.dry_run && protects_;
  take_over_due_.reset();
  check_hold(now);
  withdraw_if_refused();
  if (on) {
    make_lists(config, record, victim_cache, growth, now);
  } else if (due_ || standing_.in_force()) {
    disarm();
  }
  // There is a list, or nothing to make one for. In the warning zone the list of the zone is to
  // come (due_), without a standing one.
  const bool needs_list = due_ || standing_.has_subject();
  follow(!on || parts_.guard.in_force(now) || !needs_list, now);
}

bool GuardController::store_refused() const {
  return parts_.store_refused != nullptr && parts_.store_refused->load();
}

// A part of a guard would kill after a crash, and its kill would have no report.
void GuardController::withdraw_if_refused() {
  if (withdrawn_ || !store_refused()) return;
  if (follows_ && !former_ended_) return;  // it is in the store, too
  const auto done = parts_.guard.withdraw_from_store();
  if (done.ok() && !*done) return;
  withdrawn_ = true;
  exports::LogLine line("guard");
  line.field("what", "withdrawn");
  if (!done.ok()) line.field("problem", done.error().text());
  parts_.log.write(done.ok() ? exports::LogLevel::info : exports::LogLevel::error, line);
}

// The kernel frees the guard of an agent that has ended some time after that end.
void GuardController::check_hold(MonotonicTime now) {
  const auto due = parts_.guard.hold_check_due();
  if (!due || *due > now) return;
  parts_.guard.check_hold(now);
  if (parts_.guard.held_until()) return;
  parts_.log.write(exports::LogLevel::info,
                   exports::LogLine("guard").field("what", "no-longer-held-back"));
}

// Ends a former guard once this one is ready, or when it has ruled for long enough.
void GuardController::follow(bool ready, MonotonicTime now) {
  if (!parts_.guard.waits()) {
    if (follows_ && !former_ended_) take_over_due_ = now + kRefresh;
    return;
  }
  // This guard gets no list while its thread is stuck; the former one has some until they expire.
  if (!followed_from_ || thread_->check_late()) followed_from_ = now;
  const MonotonicTime last = *followed_from_ + kTakeOverMax;
  if (ready || now >= last) {
    static_cast<void>(take_over(now));
  } else {
    take_over_due_ = last;
  }
}

void GuardController::make_lists(const Config& config, Record& record,
                                 const VictimCache& victim_cache, const GrowthWatch& growth,
                                 MonotonicTime now) {
  if (policy::guard_subjects(config, record.observation).empty()) {
    if (due_) withdraw();
    standing_.evaluated(config, record);
    return;
  }
  standing_.short_of_memory(record.observation.kills);
  if (due_ && now < *due_ && same_kills(kills_, record.observation.kills)) {
    if (report_due_ && *report_due_ <= now) report_armed(now, /*waited=*/false);
    return;
  }
  refresh(config, record, victim_cache, growth, now);
}

// Without the turn the lists were made before the former guard's kill is known.
bool GuardController::take_over(MonotonicTime now) {
  if (!parts_.guard.waits()) return true;
  if (!parts_.guard.take_over(now)) {
    standing_.withdraw();
    withdraw();
    take_over_due_ = now + kTakeOverRetry;
    return false;
  }
  take_over_due_ = now + kTakeOverRetry;  // its end is noted then
  exports::LogLine line("guard");
  line.field("what", "took-over");
  if (!parts_.guard.store_problem().empty()) line.field("problem", parts_.guard.store_problem());
  if (parts_.guard.awaits_release(now)) line.field("waits", parts_.guard.hold_reason());
  parts_.log.write(exports::LogLevel::info, line);
  return true;
}

bool GuardController::claim() {
  const MonotonicTime now = parts_.clock.now();
  drop_preparation();
  return take_over(now) && !parts_.guard.awaits_release(now) && standing_.claim();
}

void GuardController::leave() {
  if (!parts_.guard.outlives_process() || store_refused()) return disarm();
  // Not the waits for memory that a kill frees.
  parts_.guard.decide_until(MonotonicTime());
}

std::optional<MonotonicTime> GuardController::next_due() const {
  std::optional<MonotonicTime> next = due_;
  for (const auto& due : {report_due_, take_over_due_, standing_.evaluation_due(),
                          parts_.guard.hold_check_due(), thread_->late_due()}) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

void GuardController::ranked() {
  if (due_) due_ = parts_.clock.now();
}

// Userspace approves by them, and the BPF programs check again before each signal. While the
// programs do not have all of them, there is no list.
void GuardController::protect(const std::shared_ptr<const actuators::ProtectedGroups>& groups) {
  actuators::NeverKill never_kill = *never_kill_;
  never_kill.protect(groups);
  never_kill_ = std::make_shared<const actuators::NeverKill>(std::move(never_kill));
  std::vector<kernel::GuardProtected> protected_groups;
  for (const actuators::ProtectedGroup& group : groups->all()) {
    protected_groups.push_back({group.cgroup, group.with_descendants});
  }
  const auto reported = parts_.guard.protect(protected_groups);
  protects_ = reported.ok();
  if (protects_) return;
  disarm();
  parts_.log.write(exports::LogLevel::warning,
                   exports::LogLine("guard").field("problem", reported.error().text()));
}

void GuardController::disarm() {
  parts_.guard.disarm();
  standing_.withdraw();
  withdraw();
  config_.reset();
}

// The regular lists.
void GuardController::withdraw() {
  static_cast<void>(parts_.guard.arm({}));
  regular_.cancel();
  again_ = false;
  due_.reset();
  armed_.clear();
  report_due_.reset();
  reported_first_.clear();
}

void GuardController::refresh(const Config& config, Record& record, const VictimCache& victim_cache,
                              const GrowthWatch& growth, MonotonicTime now) {
  const bool first = !std::exchange(due_, now + kRefresh).has_value();
  // Lists under way are finished, however often others fall due meanwhile.
  if (regular_.working() && same_victims(kills_, record.observation.kills)) {
    again_ = true;
    return;
  }
  again_ = false;
  kills_ = record.observation.kills;
  // Before anything that takes time: the headroom is that of the evaluation, and memory fills
  // meanwhile.
  const auto node = parts_.guard.usage(CgroupId{});
  RegularListSource source{shared(config), never_kill_, without_workloads(record), {}, 0, now,
                           nullptr};
  source.reports_read = parts_.guard.reports_read();
  if (node.ok()) source.node_usage = node->usage;
  Observation& observation = source.record.observation;
  source.samples = samples_for(config, victim_cache, now, observation);
  if (source.samples) {
    regular_.start(std::move(source));
  } else if (config.ranking == Ranking::kernel) {
    parts_.observer.add_workloads(observation, {}, sources::Scoring{true, observation.at});
    growth.apply(*observation.workloads);
    regular_.start(std::move(source));
  } else if (first && victim_cache.working()) {
    // The victim cache samples already; its list is made into this one.
    regular_.cancel();
  } else {
    regular_.sample(std::move(source));
  }
}

std::optional<MonotonicTime> GuardController::preparation_due() const {
  const auto due = regular_.sampling_due();
  return due ? due : standing_.preparation_due();
}

void GuardController::prepare(const Config& config, const GrowthWatch& growth) {
  if (regular_.sampling_due()) {
    regular_.work(growth);
  } else {
    standing_.work(shared(config), never_kill_);
  }
}

void GuardController::take_lists() {
  thread_->collect();
  report_stuck(thread_->check_late());
  standing_.take_job();
  if (const auto made = regular_.take()) publish(*made);
}

void GuardController::publish(RegularListJob& made) {
  const MonotonicTime now = parts_.clock.now();
  if (report_late(now >= made.expires())) {
    drop_preparation();
    return;
  }
  thread_->destroy(std::make_shared<const std::map<CgroupId, Listed>>(std::move(former_)));
  former_ = std::exchange(listed_, std::move(made.listed));
  former_made_from_ = std::exchange(made_from_, std::move(made.record()));
  arm(made.lists);
  // Lists that were not logged last time have waited for a clock long enough.
  report_armed(now, report_due_.has_value());
  if (std::exchange(again_, false)) due_ = now;
  if (parts_.guard.in_force(now)) follow(/*ready=*/true, now);
}

// Lists under way are void; others are due at once if there were any.
void GuardController::drop_preparation() {
  regular_.cancel();
  again_ = false;
  ranked();
}

// Logs when it changes.
void GuardController::report_stuck(bool stuck) {
  if (std::exchange(reported_stuck_, stuck) == stuck) return;
  exports::LogLine line("guard");
  if (stuck) {
    line.field("problem", "the thread that prepares lists does not finish; lists expire")
        .field("after", GuardListThread::kLateAfter);
  } else {
    line.field("what", "lists-prepared-again");
  }
  parts_.log.write(stuck ? exports::LogLevel::warning : exports::LogLevel::info, line);
}

// Logs the first of several lists in a row that were late.
bool GuardController::report_late(bool late) {
  if (std::exchange(reported_late_, late) == late || !late) return late;
  parts_.log.write(exports::LogLevel::warning,
                   exports::LogLine("guard")
                       .field("problem", "lists expired before they were made")
                       .field("expiry", RegularListJob::kExpiry));
  return late;
}

// Logs a problem when it changes.
void GuardController::report_clock_problem() {
  const auto& problem = parts_.guard.clock_problem();
  const std::string text = problem ? problem->text() : "";
  if (std::exchange(reported_clock_problem_, text) == text || text.empty()) return;
  parts_.log.write(
      exports::LogLevel::warning,
      exports::LogLine("guard").field("problem", "clocks that could not be started: " + text));
}

void GuardController::arm(const std::vector<kernel::GuardList>& lists) {
  const auto failed = parts_.guard.arm(lists);
  report_clock_problem();
  armed_.clear();
  if (!failed.ok()) {
    parts_.log.write(exports::LogLevel::warning,
                     exports::LogLine("guard").field("problem", failed.error().text()));
    return;
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (std::ranges::find(*failed, i) == failed->end()) armed_.push_back(lists[i].subject);
  }
  if (std::exchange(reported_unarmed_, failed->size()) == failed->size() || failed->empty()) return;
  const kernel::GuardList& first = lists[failed->front()];
  parts_.log.write(exports::LogLevel::warning,
                   exports::LogLine("guard")
                       .field("problem", "lists that could not be armed")
                       .field("lists", failed->size())
                       .field("subject", listed_.at(first.subject).order.path));
}

// A list is in force when a clock runs: it is logged then, or with the next refresh where no clock
// can be started (another hook fires the guard then).
void GuardController::report_armed(MonotonicTime now, bool waited) {
  report_due_.reset();
  if (armed_.empty()) return;
  if (!waited && parts_.guard.clocks() == 0) {
    report_due_ = now + kClockStart;
    return;
  }
  for (const CgroupId subject : armed_) report_listed(listed_.at(subject));
  armed_.clear();
}

// Samples taken before a kill still count its victim. Kills of the guard are not in the observation
// while their request is missing or their completion waits.
VictimCache::SharedSamples GuardController::samples_for(const Config& config,
                                                        const VictimCache& victim_cache,
                                                        MonotonicTime now,
                                                        const Observation& observation) const {
  if (!observation.kills.empty()) return nullptr;
  if (reported_at_ && victim_cache.sampled_at() <= *reported_at_) return nullptr;
  return victim_cache.samples_for(policy::guard_subjects(config, observation), now);
}

// Logs the next victim when it changes.
void GuardController::report_listed(const Listed& listed) {
  const std::int32_t first = listed.victims.empty() ? 0 : listed.victims.front().tgid;
  std::int32_t& reported = reported_first_[listed.order.cgroup];
  if (std::exchange(reported, first) == first || first == 0) return;
  parts_.log.write(
      exports::LogLevel::info,
      exports::LogLine("guard")
          .field("what", "listed")
          .field("subject", listed.order.cgroup.inode == 0 ? "node" : listed.order.path)
          .field("critical_in", listed.order.headroom)
          .field("processes", listed.victims.size())
          .field("clocks", parts_.guard.clocks())
          .field("first", first));
}

void GuardController::report(const abi_guard_report& report, const policy::GuardOrder* order,
                             bool former) {
  exports::LogLine line("guard");
  line.field("what", kind_word(report.kind))
      .field("list", report.slot == ABI_GUARD_STANDING ? "standing" : "regular")
      .field("subject", report.cgroup == 0 ? std::string("node")
                        : order != nullptr ? order->path
                                           : std::to_string(report.cgroup))
      .field("usage", bytes(report.usage))
      .field("line", bytes(report.line))
      .field("after_us", Duration(static_cast<std::int64_t>(report.at_ns - report.crossed_ns)))
      .field("hook", hook_word(report.hook));
  if (report.victim.tgid != 0) {
    line.field("pid", report.victim.tgid)
        .field("way", way_word(report.way))
        .field("code", report.code)
        .field("refused_before", report.refused);
  }
  if (former) line.field("agent", "former");
  line.field("running", std::string_view(report.comm, strnlen(report.comm, ABI_COMM_LENGTH)));
  parts_.log.write(exports::LogLevel::warning, line);
}

// The newest one with the victim, if the report is about one.
GuardController::ListSource GuardController::source_of(const abi_guard_report& report) const {
  if (report.slot == ABI_GUARD_STANDING) {
    return standing_.order() != nullptr ? ListSource{standing_.order(), &standing_.made_from()}
                                        : ListSource{};
  }
  const CgroupId victim{report.victim.cgroup};
  const auto find = [&](const std::map<CgroupId, Listed>& lists) -> const policy::GuardOrder* {
    const auto listed = lists.find(CgroupId{report.cgroup});
    if (listed == lists.end()) return nullptr;
    const auto& considered = listed->second.order.considered;
    const bool known =
        victim == CgroupId{} || std::ranges::any_of(considered, [&](const Candidate& each) {
          return each.sample.workload.cgroup == victim;
        });
    return known ? &listed->second.order : nullptr;
  };
  if (const auto* order = find(listed_)) return {order, &made_from_};
  if (const auto* order = find(former_)) return {order, &former_made_from_};
  return {};
}

std::optional<KillRequest> GuardController::request_of(const abi_guard_report& report,
                                                       const ListSource& source) const {
  if (source.order == nullptr) return std::nullopt;
  const policy::GuardOrder& order = *source.order;
  const Record& made_from = *source.made_from;
  const auto victim = std::ranges::find_if(order.considered, [&](const Candidate& candidate) {
    return candidate.sample.workload.cgroup == CgroupId{report.victim.cgroup};
  });
  if (victim == order.considered.end()) return std::nullopt;
  KillRequest request;
  request.origin = KillOrigin::guard;
  // The stages are those of the completion: the guard's own times are in its line of the log.
  const MonotonicTime now = parts_.clock.now();
  request.stages = {now, now, now, now};
  request.observation = made_from.observation;
  request.set_crossing(order.cgroup, bytes(report.usage),
                       from_ns(static_cast<std::int64_t>(report.crossed_ns)));
  Decision& decision = request.decision;
  decision = made_from.decision;
  decision.driving.reset();
  for (std::size_t i = 0; i < decision.evidence.size() && !decision.driving; ++i) {
    const Evidence& evidence = decision.evidence[i];
    if (evidence.cgroup == order.cgroup && evidence.threshold.signal == order.signal) {
      decision.driving = i;
    }
  }
  decision.considered = order.considered;
  request.set_victim(static_cast<std::size_t>(victim - order.considered.begin()));
  if (decision.driving) {
    policy::write_notice(*victim, decision.evidence[*decision.driving], decision.evidence,
                         decision.evictions.front());
  }
  request.signalled = {from_ns(static_cast<std::int64_t>(report.at_ns)), 1, usage_at_kill(report)};
  return request;
}

// The former agent's list is not known. The record has the victim alone: no other workload is read
// while memory is short.
std::vector<Candidate> GuardController::candidates_of_former(const Config& config,
                                                             const policy::StandingSubject& subject,
                                                             CgroupId victim) const {
  const auto known = parts_.observer.workloads();
  const auto found = std::ranges::find(known, victim, &Workload::cgroup);
  if (found == known.end()) return {};
  const std::string path = (*found)->path;
  Observation observation = evaluated_->observation;
  parts_.observer.add_workloads(observation, path, sources::kUnscored);
  auto candidates = policy::standing_order(config, subject, observation).considered;
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.sample.workload.cgroup != victim;
  });
  return candidates;
}

std::optional<KillRequest> GuardController::former_request_of(const Config& config,
                                                              const abi_guard_report& report) {
  std::optional<KillRequest> request;
  if (evaluated_) {
    policy::StandingSubject subject;
    subject.cgroup = CgroupId{report.cgroup};
    subject.path = "/";
    for (const Evidence& evidence : evaluated_->decision.evidence) {
      if (evidence.cgroup != subject.cgroup || !has_usage_line(evidence.threshold.signal)) continue;
      subject.signal = evidence.threshold.signal;
      if (subject.cgroup != CgroupId{}) subject.path = evidence.subject;
    }
    policy::GuardOrder order;
    order.cgroup = subject.cgroup;
    order.path = subject.path;
    order.signal = subject.signal;
    order.considered = candidates_of_former(config, subject, CgroupId{report.victim.cgroup});
    request = request_of(report, {&order, &*evaluated_});
  }
  if (!request) {
    parts_.log.write(
        exports::LogLevel::warning,
        exports::LogLine("guard")
            .field("problem", "a kill of the former guard has no record: its workload is gone")
            .field("cgroup", report.victim.cgroup));
  }
  return request;
}

std::vector<KillRequest> GuardController::take_kills(const Config& config) {
  std::vector<KillRequest> kills;
  bool stood = false;
  const std::uint64_t reports_before = parts_.guard.reports_read();
  const auto take = [&](const abi_guard_report& found, const auto& request_for) {
    if (found.kind != ABI_GUARD_KILLED) return;
    const auto same = std::ranges::find_if(kills, [&](const KillRequest& kill) {
      return kill.victim().workload.cgroup == CgroupId{found.victim.cgroup};
    });
    if (same != kills.end()) {
      actuators::Signalled& signalled = *same->signalled;
      const MonotonicTime at = from_ns(static_cast<std::int64_t>(found.at_ns));
      signalled.at = std::min(signalled.at, at);
      signalled.usage_before = std::max(signalled.usage_before, usage_at_kill(found));
      ++signalled.processes;
    } else if (auto request = request_for(found)) {
      kills.push_back(std::move(*request));
    }
  };
  parts_.guard.drain(
      [&](const abi_guard_report& found) {
        const ListSource source = source_of(found);
        report(found, source.order, /*former=*/false);
        stood = stood || found.slot == ABI_GUARD_STANDING;
        take(found, [&](const abi_guard_report& each) { return request_of(each, source); });
      },
      [&](const abi_guard_report& found) {
        report(found, nullptr, /*former=*/true);
        stood = true;
        take(found, [&](const abi_guard_report& each) { return former_request_of(config, each); });
      });
  ranked();  // the lists were made without these kills
  if (parts_.guard.reports_read() != reports_before) {
    drop_preparation();
    reported_at_ = parts_.clock.now();
  }
  if (stood) standing_.withdraw();
  return kills;
}

}  // namespace forestall::agent
